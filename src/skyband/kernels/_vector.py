"""The only module that uses private parts of Numba and LLVM. Kernels run without it, at the price stated below.

`FUNCTIONS` replaces functions of `simd.py` on processors with AVX-512; without it a workload of 100 queries takes 1.8
times as long. `INPLACE_OPTIONS` compiles kernels without reference counts; without it engines that work row by row
take up to 1.5 times as long. Both are empty where the processor, Numba or LLVM lacks what they need.
"""

from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core.codegen import get_host_cpu_features
from numba.core.options import DefaultOptions
from numba.extending import intrinsic as typed_intrinsic

from skyband.kernels import LANES

_config: Any = numba.config  # filled in when it is loaded, so type checkers do not know its attributes
_intrinsic: Any = typed_intrinsic  # callers do not pass the first argument
_AVX512 = {"+avx512f", "+avx512vl", "+avx512dq", "+avx512bw"}
_BITS, _MASK = ir.VectorType(ir.IntType(1), LANES), ir.IntType(LANES)
_KINDS = {
    types.float64: (ir.DoubleType(), "f64", 8),
    types.int64: (ir.IntType(64), "i64", 8),
    types.int32: (ir.IntType(32), "i32", 4),
}


def _pointer(context, builder, array_type, array, row):
    """Return the address of eight values, and their vector type."""
    vector = ir.VectorType(_KINDS[array_type.dtype][0], LANES)
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [row]), vector.as_pointer()), vector


def _compare(context, builder, sig, args, operator):
    array_type = sig.args[0]
    address, vector = _pointer(context, builder, array_type, args[0], args[1])
    values = builder.load(address, align=_KINDS[array_type.dtype][2])
    undefined = ir.Constant(vector, ir.Undefined)
    bound = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
    bound = builder.shuffle_vector(bound, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
    compare = builder.fcmp_ordered if isinstance(array_type.dtype, types.Float) else builder.icmp_signed
    return builder.zext(builder.bitcast(compare(operator, values, bound), _MASK), ir.IntType(64))


def _comparison(operator):
    def mask(_, column, row, bound):  # noqa: ARG001  # Numba counts them
        sig = types.uint64(column, types.uint64, column.dtype)
        return sig, lambda context, builder, sig, args: _compare(context, builder, sig, args, operator)

    return _intrinsic(mask)


@_intrinsic
def _compress(_, mask, column, row, to, at):  # noqa: ARG001  # Numba counts them
    def codegen(context, builder, sig, args):
        _, name, size = _KINDS[sig.args[1].dtype]
        source, vector = _pointer(context, builder, sig.args[1], args[1], args[2])
        target, _ = _pointer(context, builder, sig.args[3], args[3], args[4])
        mask = builder.bitcast(builder.trunc(args[0], _MASK), _BITS)
        function = ir.FunctionType(vector, [vector, _BITS, vector])
        call = builder.module.declare_intrinsic(f"llvm.experimental.vector.compress.v{LANES}{name}", fnty=function)
        values = builder.load(source, align=size)
        builder.store(builder.call(call, [values, mask, ir.Constant(vector, ir.Undefined)]), target, align=size)
        return context.get_dummy_value()

    return types.void(types.uint64, column, types.uint64, to, types.uint64), codegen


@_intrinsic
def _popcount(_, mask):  # noqa: ARG001  # Numba counts them
    return types.uint64(types.uint64), lambda _, builder, __, args: builder.ctpop(args[0])


def _has_avx512() -> bool:
    features = get_host_cpu_features() if _config.CPU_FEATURES is None else _config.CPU_FEATURES
    return set(features.split(",")) >= _AVX512 and llvm.llvm_version_info[0] >= 20


FUNCTIONS: dict[str, Any] = {}
INPLACE_OPTIONS: dict[str, Any] = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}
if _has_avx512():
    FUNCTIONS |= {"mask_ge": _comparison(">="), "mask_gt": _comparison(">"), "mask_le": _comparison("<=")}
    FUNCTIONS |= {"compress": _compress, "popcount": _popcount}
