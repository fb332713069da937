"""Rows that pass a test, moved together: eight at a time, without a branch.

Where the processor has an instruction for it (AVX-512) and the compiler knows it, that is used; elsewhere, and without
compilation, plain loops do the same. A mask has a bit for each of eight rows, the lowest for the first.
"""

from typing import Any

import numba
import numpy as np
from numba import types

from skyband.kernels._jit import inlined

LANES = 8
LINE = 64  # bytes of memory that come and go together: eight values
_config: Any = numba.config  # made as it is loaded: its types do not know what it has


def _able() -> bool:
    """Whether eight values can be packed in a few instructions."""
    import llvmlite.binding as llvm
    from numba.core.codegen import get_host_cpu_features  # what the kernels are compiled for

    features = get_host_cpu_features() if _config.CPU_FEATURES is None else _config.CPU_FEATURES
    wanted = {"+avx512f", "+avx512vl", "+avx512dq", "+avx512bw"}
    return not _config.DISABLE_JIT and llvm.llvm_version_info[0] >= 20 and wanted <= set(features.split(","))


STREAMS = _able()  # whether `stream` spares the caches

if STREAMS:
    from llvmlite import ir
    from numba.extending import intrinsic as typed

    intrinsic: Any = typed  # who calls it does not give the first argument

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

else:

    @inlined
    def reach(column, row, bound):
        """Which of eight values are not below the bound."""
        mask = np.uint64(0)
        for i in range(LANES):
            mask |= np.uint64(column[row + np.uint64(i)] >= bound) << np.uint64(i)
        return mask

    @inlined
    def exceed(column, row, bound):
        """Which of eight values are above the bound."""
        mask = np.uint64(0)
        for i in range(LANES):
            mask |= np.uint64(column[row + np.uint64(i)] > bound) << np.uint64(i)
        return mask

    @inlined
    def within(column, row, bound):
        """Which of eight values are not above the bound."""
        mask = np.uint64(0)
        for i in range(LANES):
            mask |= np.uint64(column[row + np.uint64(i)] <= bound) << np.uint64(i)
        return mask

    @inlined
    def differ(column, row, bound):
        """Which of eight values are not the bound."""
        mask = np.uint64(0)
        for i in range(LANES):
            mask |= np.uint64(column[row + np.uint64(i)] != bound) << np.uint64(i)
        return mask

    @inlined
    def pack(mask, column, row, to, at):
        """Copy those of eight values that the mask names; up to eight places are written over."""
        out = np.uint64(at)
        for i in range(LANES):
            value = column[row + np.uint64(i)]
            to[out] = value
            out += (mask >> np.uint64(i)) & np.uint64(1)

    @inlined
    def stream(column, row, to, at):
        """Copy eight values."""
        for i in range(LANES):
            to[at + np.uint64(i)] = column[row + np.uint64(i)]

    @inlined
    def bits(mask):
        """How many rows a mask names."""
        count = np.uint64(0)
        for i in range(LANES):
            count += (mask >> np.uint64(i)) & np.uint64(1)
        return count
