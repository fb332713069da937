"""Faster versions of some functions, for processors with AVX-512.

`pack` and `lookup` have plain loops of the same names, which give the same results. This is the only module with
private parts of Numba and LLVM; where the processor or LLVM lacks what it needs, kernels keep the plain loops.
"""

from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core.codegen import get_host_cpu_features  # what the kernels are compiled for
from numba.extending import intrinsic as typed

from skyband.kernels.lookup import BYTES, LOWEST, MULTIPLIER, ROWS, TABLES
from skyband.kernels.pack import LANES, LINE

_AVX512 = {"+avx512f", "+avx512vl", "+avx512dq", "+avx512bw"}
_config: Any = numba.config  # made as it is loaded: its types do not know what it has
intrinsic: Any = typed  # who calls it does not give the first argument

# ------------------------------------------------------------ eight values at a time

_BITS, _MASK = ir.VectorType(ir.IntType(1), LANES), ir.IntType(LANES)
_KINDS = {
    types.float64: (ir.DoubleType(), "f64", 8),
    types.int64: (ir.IntType(64), "i64", 8),
    types.int32: (ir.IntType(32), "i32", 4),
}


def _place(context, builder, kind, array, row):
    """Where eight values of a column are, and their type."""
    value, _, _ = _KINDS[kind.dtype]
    vector = ir.VectorType(value, LANES)
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [row]), vector.as_pointer()), vector


def _tested(context, builder, sig, args, sign):
    """The mask of a comparison of eight values with a bound."""
    kind = sig.args[0]
    where, vector = _place(context, builder, kind, args[0], args[1])
    found = builder.load(where, align=_KINDS[kind.dtype][2])
    some = ir.Constant(vector, ir.Undefined)
    bound = builder.insert_element(some, args[2], ir.Constant(ir.IntType(32), 0))
    bound = builder.shuffle_vector(bound, some, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
    compare = builder.fcmp_ordered if isinstance(kind.dtype, types.Float) else builder.icmp_signed
    return builder.zext(builder.bitcast(compare(sign, found, bound), _MASK), ir.IntType(64))


def _test(sign):
    def tested(_, column, row, bound):  # noqa: ARG001  # Numba counts them
        sig = types.uint64(column, types.uint64, column.dtype)
        return sig, lambda context, builder, sig, args: _tested(context, builder, sig, args, sign)

    return intrinsic(tested)


reach = _test(">=")
exceed = _test(">")
differ = _test("!=")
within = _test("<=")


@intrinsic
def pack(_, mask, column, row, to, at):  # noqa: ARG001  # Numba counts them
    """Copy those of eight values that the mask names; up to eight places are written over."""
    sig = types.void(types.uint64, column, types.uint64, to, types.uint64)

    def codegen(context, builder, sig, args):
        _, name, size = _KINDS[sig.args[1].dtype]
        where, vector = _place(context, builder, sig.args[1], args[1], args[2])
        goal, _ = _place(context, builder, sig.args[3], args[3], args[4])
        mask = builder.bitcast(builder.trunc(args[0], _MASK), _BITS)
        kind = ir.FunctionType(vector, [vector, _BITS, vector])
        packs = builder.module.declare_intrinsic(f"llvm.experimental.vector.compress.v{LANES}{name}", fnty=kind)
        packed = builder.call(packs, [builder.load(where, align=size), mask, ir.Constant(vector, ir.Undefined)])
        builder.store(packed, goal, align=size)
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def stream(_, column, row, to, at):  # noqa: ARG001  # Numba counts them
    """Copy eight values to memory, past the caches. What they are written to is a line, so it begins at one."""
    sig = types.void(column, types.uint64, to, types.uint64)

    def codegen(context, builder, sig, args):
        where, _ = _place(context, builder, sig.args[0], args[0], args[1])
        goal, _ = _place(context, builder, sig.args[2], args[2], args[3])
        put = builder.store(builder.load(where, align=8), goal, align=LINE)
        put.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return sig, codegen


@intrinsic
def bits(_, mask):  # noqa: ARG001  # Numba counts them
    """How many rows a mask names."""
    return types.uint64(types.uint64), lambda _, builder, __, args: builder.ctpop(args[0])


# ------------------------------------------------------------ sixty-four values at a time

_BYTE, _WORD, _INDEX = ir.IntType(8), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_BYTE, ROWS)
_EIGHT = ir.VectorType(_WORD, 8)


def _same(kind, value):
    """A vector of the same number."""
    return ir.Constant(kind, [value] * kind.count)


def _data(context, builder, kind, array, row=None):
    data = context.make_array(kind)(context, builder, array).data
    return data if row is None else builder.gep(data, [row])


def _load(builder, data, kind, number, align):
    """The vector of this number, from `data` on."""
    where = builder.bitcast(data, kind.as_pointer())
    return builder.load(builder.gep(where, [ir.Constant(_INDEX, number)]), align=align)


def _shuffled(builder, one, other, picked):
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(_INDEX, len(picked)), picked))


def _lanes(builder, one, other, picked):
    """Four of the quarters of two vectors."""
    return _shuffled(builder, one, other, [16 * quarter + byte for quarter in picked for byte in range(16)])


def _hashes(builder, ids):
    """The four used bytes of the hashes of 64 ids, each a vector."""
    times = _same(_EIGHT, MULTIPLIER)
    hashed = [builder.bitcast(builder.mul(_load(builder, ids, _EIGHT, n, 8), times), _VECTOR) for n in range(8)]
    of_16 = [8 * row + LOWEST // 8 + byte for byte in range(TABLES + 1) for row in range(16)]  # of two vectors
    mixed = [_shuffled(builder, hashed[n], hashed[n + 1], of_16) for n in range(0, 8, 2)]
    halves = [_lanes(builder, mixed[n], mixed[n + 1], of) for of in ((0, 1, 4, 5), (2, 3, 6, 7)) for n in (0, 2)]
    return [_lanes(builder, halves[n], halves[n + 1], of) for n in (0, 2) for of in ((0, 2, 4, 6), (1, 3, 5, 7))]


@intrinsic
def noted(_, ids, row, tables):  # noqa: ARG001  # Numba counts them
    """Which of 64 ids have all their bits set."""
    sig = types.uint64(ids, types.uint64, tables)

    def codegen(context, builder, sig, args):
        two = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        one = ir.FunctionType(_VECTOR, [_VECTOR] * 2)
        pick_of_two = builder.module.declare_intrinsic("llvm.x86.avx512.vpermi2var.qi.512", fnty=two)
        pick = builder.module.declare_intrinsic("llvm.x86.avx512.permvar.qi.512", fnty=one)
        powers = ir.Constant(_VECTOR, [1 << n % 8 for n in range(ROWS)])
        bits = _hashes(builder, _data(context, builder, sig.args[0], args[0], args[1]))
        data = _data(context, builder, sig.args[2], args[2])
        every = None
        for t in range(TABLES):
            here, more = bits[t], bits[t + 1]
            table = [_load(builder, data, _VECTOR, BYTES // ROWS * t + n, 1) for n in range(BYTES // ROWS)]
            parts = [builder.call(pick_of_two, [table[n], here, table[n + 1]]) for n in range(0, len(table), 2)]
            high = builder.icmp_signed("<", here, _same(_VECTOR, 0))
            halves = [builder.select(high, parts[n + 1], parts[n]) for n in (0, 2)]
            second = builder.icmp_unsigned("!=", builder.and_(more, _same(_VECTOR, 8)), _same(_VECTOR, 0))
            found = builder.and_(builder.select(second, halves[1], halves[0]), builder.call(pick, [powers, more]))
            mask = builder.icmp_unsigned("!=", found, _same(_VECTOR, 0))
            every = mask if every is None else builder.and_(every, mask)
        return builder.bitcast(every, _WORD)

    return sig, codegen


def _compared(context, builder, sig, args):
    """Sixty-four values, and as many times the one that they are compared with."""
    kind = ir.VectorType(context.get_data_type(sig.args[2]), ROWS)
    found = _load(builder, _data(context, builder, sig.args[0], args[0], args[1]), kind, 0, 8)
    some = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(some, args[2], ir.Constant(_INDEX, 0))
    return found, _shuffled(builder, one, some, [0] * ROWS)


@intrinsic
def reached(_, column, row, bound):  # noqa: ARG001  # Numba counts them
    """Which of 64 values are not below the bound."""
    sig = types.uint64(column, types.uint64, types.float64)

    def codegen(context, builder, sig, args):
        return builder.bitcast(builder.fcmp_ordered(">=", *_compared(context, builder, sig, args)), _WORD)

    return sig, codegen


@intrinsic
def equal(_, column, row, value):  # noqa: ARG001  # Numba counts them
    """Which of 64 values are this one."""
    sig = types.uint64(column, types.uint64, types.int64)

    def codegen(context, builder, sig, args):
        return builder.bitcast(builder.icmp_signed("==", *_compared(context, builder, sig, args)), _WORD)

    return sig, codegen


@intrinsic
def lowest(_, mask):  # noqa: ARG001  # Numba counts them
    """The number of the lowest bit that is set."""

    def codegen(_, builder, __, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


def found() -> dict[str, Any]:
    """The functions that are compiled to instructions of this processor, by name."""
    features = get_host_cpu_features() if _config.CPU_FEATURES is None else _config.CPU_FEATURES
    able = set(features.split(","))
    made: dict[str, Any] = {}
    if able >= _AVX512 and llvm.llvm_version_info[0] >= 20:
        made |= {"reach": reach, "exceed": exceed, "differ": differ, "within": within, "pack": pack}
        made |= {"stream": stream, "bits": bits}
    if able >= _AVX512 | {"+avx512vbmi"}:
        made |= {"noted": noted, "reached": reached, "equal": equal, "lowest": lowest}
    return made
