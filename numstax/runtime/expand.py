"""What the compilers of both kinds of device share: names for program text, errors, and intrinsics as data.

`expand`: an `Intrinsic` and the LLVM values of its arguments enter; the value of its last row leaves.
"""
# llvmlite is not annotated.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from llvmlite import ir

from numstax.errors import CompileError
from numstax.program import Intrinsic, Program

TYPED_NAMES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "complex64", "complex128", "boolean"),
)
"""The types that program text may name, as conversions."""
Codegen = Callable[[Any, ir.IRBuilder, Any, tuple[ir.Value, ...]], ir.Value]

Special = Mapping[str, Callable[[ir.IRBuilder, str, ir.Type, list[ir.Value]], ir.Value]]
"""Opcode -> what makes its instruction from builder, opcode, result type and operands."""
_NOTHING_SPECIAL: Special = MappingProxyType({})
_LLVM_FLOAT = {"f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType()}
_CONVERSIONS = {
    "bitcast": "bitcast",
    "sitofp": "sitofp",
    "uitofp": "uitofp",
    "fptosi": "fptosi",
    "fptoui": "fptoui",
    "fpext": "fpext",
    "fptrunc": "fptrunc",
    "zext": "zext",
    "sext": "sext",
    "itrunc": "trunc",
}
_BUILDER = {
    **{op: op for op in ("fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "select")},
    **{op: op for op in ("add", "sub", "mul", "sdiv", "udiv", "shl", "lshr", "ashr", "xor")},
    "and": "and_",
    "or": "or_",
    "not": "not_",
}
_REASSOCIATED = {"fadd_reassoc": "fadd", "fmul_reassoc": "fmul"}
_FITS = {f"s{op}_fits": f"s{op}_with_overflow" for op in ("add", "sub", "mul")}
_FUNCTIONS = {
    **{op: op for op in ("fabs", "fma", "sqrt", "rint", "floor", "ceil", "trunc", "copysign", "ctpop", "ctlz")},
    "fmaximum": "maximum",
    "fminimum": "minimum",
    "fmaximum_nsz": "maximum",
    "fminimum_nsz": "minimum",
}
_UNSIGNED_ZERO = ("fmaximum_nsz", "fminimum_nsz")


def _llvm_type(name: str) -> ir.Type:
    return _LLVM_FLOAT.get(name) or ir.IntType(int(name[1:]))


def expand(
    builder: ir.IRBuilder, intrinsic: Intrinsic, args: tuple[ir.Value, ...], special: Special = _NOTHING_SPECIAL
) -> ir.Value:
    """Append the instructions of an intrinsic; the value of its last row.

    `special` makes the opcodes that a target spells in its own way.
    """
    values: list[ir.Value] = []
    for row in intrinsic.code:
        op, dtype, *operands = row
        kind = _llvm_type(str(dtype))
        if op == "param":
            values.append(args[operands[0]])  # type: ignore[call-overload]
        elif op == "const":
            values.append(ir.Constant(kind, operands[0]))
        elif op in ("fcmp", "icmp"):
            predicate, a, b = operands
            values.append(_compare(builder, str(predicate), values[a], values[b]))  # type: ignore[call-overload]
        elif op == "lookup":
            table, index = operands
            values.append(_lookup(builder, kind, table, values[index]))  # type: ignore[arg-type,call-overload]
        else:
            given = [values[k] for k in operands]  # type: ignore[call-overload]
            make = special.get(str(op), _instruction)
            values.append(make(builder, str(op), kind, given))
    return values[-1]


def _lookup(builder: ir.IRBuilder, kind: ir.Type, table: tuple[object, ...], index: ir.Value) -> ir.Value:
    """An element of a constant array; the vectoriser makes it a gather."""
    array = ir.Constant(ir.ArrayType(kind, len(table)), [ir.Constant(kind, v) for v in table])
    constant = ir.GlobalVariable(builder.module, array.type, builder.module.get_unique_name("table"))
    constant.global_constant, constant.linkage, constant.initializer = True, "private", array
    return builder.load(builder.gep(constant, [ir.Constant(index.type, 0), index], inbounds=True))


def _compare(builder: ir.IRBuilder, predicate: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """LLVM's predicates: oeq olt ole ogt oge one ord une uno ult .. for floats, eq ne slt ult .. for integers."""
    kind = ir.FCMPInstr if isinstance(a.type, ir.FloatType | ir.DoubleType | ir.HalfType) else ir.ICMPInstr
    instruction = kind(builder.block, predicate, a, b)
    builder._insert(instruction)
    return instruction


def _instruction(builder: ir.IRBuilder, op: str, kind: ir.Type, operands: list[ir.Value]) -> ir.Value:
    if op in _CONVERSIONS:
        return getattr(builder, _CONVERSIONS[op])(operands[0], kind)
    if op in _BUILDER:
        return getattr(builder, _BUILDER[op])(*operands)
    if op in _REASSOCIATED:
        # with nsz, 2*x + 2*y would become 2*(x + y), which is finite where NumPy's result is not
        return getattr(builder, _REASSOCIATED[op])(*operands, flags=("reassoc",))
    if op in _FITS:
        both = getattr(builder, _FITS[op])(*operands)
        return builder.not_(builder.extract_value(both, 1))
    if op == "umulh":
        wide = ir.IntType(2 * kind.width)
        product = builder.mul(*(builder.zext(v, wide) for v in operands))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, kind.width)), kind)
    name = _FUNCTIONS[op]
    if op == "ctlz":
        operands = [*operands, ir.Constant(ir.IntType(1), 0)]
    signature = ir.FunctionType(kind, [v.type for v in operands])
    function = builder.module.declare_intrinsic(f"llvm.{name}", [kind], signature)
    return builder.call(function, operands, fastmath=("nsz",) if op in _UNSIGNED_ZERO else ())


# --- program text -------------------------------------------------------------------------------------


def expanding(name: str, signature: object, count: int, codegen: Codegen) -> Callable[..., Any]:
    """What Numba's ``intrinsic`` takes, for a function of `count` arguments that `codegen` expands at each call; the
    arguments are converted to the types of the signature."""

    def typing(context: object, *actual: object) -> tuple[object, Codegen]:
        return signature, codegen

    typing.__name__ = name
    names = ("context", *(f"p{k}" for k in range(count)))
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    typing.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in names])  # type: ignore[attr-defined]
    return typing


def compile_error(program: Program, message: str, line: int | None = None) -> CompileError:
    """The error of a program that does not compile, with the line that the message names, or else `line`."""
    file = re.escape(f"<{program.name}>")
    found = re.search(rf'(?:File "{file}", line |{file} \()(\d+)', message)
    line = int(found[1]) if found else line
    lines = program.text.splitlines()
    shown = f"\n  line {line}: {lines[line - 1].strip()}" if line and line <= len(lines) else ""
    reason = re.sub(r"\x1b\[[0-9;]*m", "", message).strip()
    return CompileError(
        f"program '{program.name}' does not compile for {program.target}{shown}\n{reason}",
        remedy="report this as a bug in numstax",
    )
