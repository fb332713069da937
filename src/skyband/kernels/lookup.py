"""Sixty-four ids at a time, looked up in tables so small that they stay in registers.

An id has one bit in each table: a byte of its hash and four bits of the next one say where. An id whose bits are not
all set was never noted. Where the processor has an instruction that looks up 64 bytes at once (AVX-512 VBMI) that is
used; elsewhere, and without compilation, plain loops do the same, and then larger tables in memory are the faster way.
A mask has a bit for each of 64 rows, the lowest for the first.
"""

from typing import Any

import numba
import numpy as np
from numba import types

from skyband.kernels._jit import inlined

ROWS = 64
TABLES = 3
BYTES = 512  # of a table
_MULTIPLIER = 0xD6E8FEB86659FD93
_TIMES = np.uint64(_MULTIPLIER)
_LOWEST = 32  # bit of the hash from which on it is used, a byte for each table and one more
_ONE = np.uint64(1)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)  # shifted by n, its six highest bits are another number for each n
_PLACE = np.array(sorted(range(64), key=lambda n: (0x03F79D71B4CB0A89 << n) % (1 << 64) >> 58), np.int64)
_config: Any = numba.config  # made as it is loaded: its types do not know what it has


def _able() -> bool:
    """Whether the processor looks up 64 bytes at once."""
    from numba.core.codegen import get_host_cpu_features  # what the kernels are compiled for

    features = get_host_cpu_features() if _config.CPU_FEATURES is None else _config.CPU_FEATURES
    wanted = {"+avx512f", "+avx512vl", "+avx512dq", "+avx512bw", "+avx512vbmi"}
    return not _config.DISABLE_JIT and wanted <= set(features.split(","))


ABLE = _able()


@inlined
def _spot(hashed, table):
    """Which byte, and which bit of it, stands for an id in one of the tables."""
    here = (hashed >> np.uint64(_LOWEST + 8 * table)) & np.uint64(255)
    more = (hashed >> np.uint64(_LOWEST + 8 * (table + 1))) & np.uint64(15)
    at = np.uint64(BYTES * table) + (more >> np.uint64(3)) * np.uint64(256) + here
    return at, np.uint8(1) << np.uint8(more & np.uint64(7))


@inlined
def note(id, tables):
    """Set the bits of an id."""
    hashed = np.uint64(id) * _TIMES
    for t in range(TABLES):
        at, mine = _spot(hashed, t)
        tables[at] |= mine


@inlined
def noted_plainly(ids, row, tables):
    """Which of 64 ids have all their bits set."""
    mask = np.uint64(0)
    for i in range(ROWS):
        hashed = np.uint64(ids[row + np.uint64(i)]) * _TIMES
        every = True
        for t in range(TABLES):
            at, mine = _spot(hashed, t)
            every &= tables[at] & mine != 0
        mask |= np.uint64(every) << np.uint64(i)
    return mask


@inlined
def reached_plainly(column, row, bound):
    """Which of 64 values are not below the bound."""
    mask = np.uint64(0)
    for i in range(ROWS):
        mask |= np.uint64(column[row + np.uint64(i)] >= bound) << np.uint64(i)
    return mask


@inlined
def equal_plainly(column, row, value):
    """Which of 64 values are this one."""
    mask = np.uint64(0)
    for i in range(ROWS):
        mask |= np.uint64(column[row + np.uint64(i)] == value) << np.uint64(i)
    return mask


@inlined
def lowest_plainly(mask):
    """The number of the lowest bit that is set."""
    return _PLACE[((mask & (~mask + _ONE)) * _DE_BRUIJN) >> np.uint64(58)]


if ABLE:
    from llvmlite import ir
    from numba.extending import intrinsic as typed

    intrinsic: Any = typed  # who calls it does not give the first argument

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
        times = _same(_EIGHT, _MULTIPLIER)
        hashed = [builder.bitcast(builder.mul(_load(builder, ids, _EIGHT, n, 8), times), _VECTOR) for n in range(8)]
        of_16 = [8 * row + _LOWEST // 8 + byte for byte in range(TABLES + 1) for row in range(16)]  # of two vectors
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

else:
    noted, reached, equal = noted_plainly, reached_plainly, equal_plainly
    lowest = lowest_plainly
