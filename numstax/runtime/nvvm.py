"""What NVVM spells in its own way: opcodes, the metadata of loops, parameters passed by value.

Modules and operations in LLVM's language enter and leave, in the dialect of NVVM.
"""

# llvmlite is only partly annotated.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import re
from collections.abc import Callable

from llvmlite import ir

UNROLL = "numstax_unroll"
"""A call of this function marks the block that ends a loop which is to be unrolled."""


def adjusted(module: str) -> str:
    """The text of a module in the dialect of NVVM, whose `byval` has no type, with its marked loops unrolled."""
    return _unrolled(re.sub(r"\bbyval\([^()]*\)", "byval", module))


def _unrolled(module: str) -> str:
    """The text of a module with its marked loops told to be unrolled: llvmlite has no metadata that names itself."""
    if UNROLL not in module:
        return module
    full = max((int(n) for n in re.findall(r"^!(\d+) =", module, re.MULTILINE)), default=-1) + 1
    lines: list[str] = []
    loops, marked = 0, False
    for line in module.splitlines():
        if UNROLL in line:
            marked |= "call" in line
            continue
        if marked and line.startswith("  br "):
            loops, marked = loops + 1, False
            line += f", !llvm.loop !{full + loops}"
        lines.append(line)
    lines.append(f'!{full} = !{{ !"llvm.loop.unroll.full" }}')
    lines += (f"!{full + k} = distinct !{{ !{full + k}, !{full} }}" for k in range(1, loops + 1))
    return "\n".join(lines)


# --- opcodes -----------------------------------------------------------------------------------------


def _ptx(text: str) -> Callable[[ir.IRBuilder, str, ir.Type, list[ir.Value]], ir.Value]:
    def make(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
        suffix, register = ("f32", "f") if isinstance(kind, ir.FloatType) else ("f64", "d")
        constraints = ",".join([f"={register}"] + [register] * len(operands))
        made = ir.FunctionType(kind, [v.type for v in operands])
        return builder.call(ir.InlineAsm(made, text.replace("T", suffix), constraints), operands)

    return make


def _greater(choose: str) -> Callable[[ir.IRBuilder, str, ir.Type, list[ir.Value]], ir.Value]:
    """maximum or minimum that propagates NaN; PTX has it for float32 only."""

    def make(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
        if isinstance(kind, ir.FloatType):
            return _ptx(f"{'max' if choose == '>' else 'min'}.NaN.T $0, $1, $2;")(builder, op, kind, operands)
        a, b = operands
        wanted = builder.or_(builder.fcmp_ordered(choose, a, b), builder.fcmp_unordered("uno", a, a))
        return builder.select(wanted, a, b)

    return make


def _negated(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    """NVVM's dialect of LLVM IR has no negation of floats."""
    return builder.fsub(ir.Constant(kind, -0.0), operands[0])


_WORD = ir.IntType(32)


def _pair(builder: ir.IRBuilder, text: str, constraints: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    """A float32 that is a bfloat16 has its bits in the upper half and zeros in the lower: a pair with 0, so that what
    computes with pairs need not convert."""
    made = ir.FunctionType(_WORD, [v.type for v in operands])
    return builder.bitcast(builder.call(ir.InlineAsm(made, text, constraints), operands), kind)


def _round_bf16(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    return _pair(builder, "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", kind, [*operands, ir.Constant(kind, 0.0)])


def _fma_bf16(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    words = [builder.bitcast(v, _WORD) for v in operands]
    return _pair(builder, "fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", kind, words)


SPECIAL = {
    "round_bf16": _round_bf16,
    "fma_bf16": _fma_bf16,
    "fma_unit": _ptx("fma.rn.sat.T $0, $1, $2, $3;"),
    "fma_down": _ptx("fma.rm.T $0, $1, $2, $3;"),
    "ex2": _ptx("ex2.approx.ftz.T $0, $1;"),
    "rcp": _ptx("rcp.approx.ftz.T $0, $1;"),
    "fneg": _negated,
    "fabs": _ptx("abs.T $0, $1;"),
    "rint": _ptx("cvt.rni.T.T $0, $1;"),
    "fmaximum": _greater(">"),
    "fminimum": _greater("<"),
    "fmaximum_nsz": _greater(">"),
    "fminimum_nsz": _greater("<"),
}
