"""The NumPy lane model of intrinsics: what each opcode means, one array element for each lane.

An `Intrinsic` and one array for each parameter enter; the array of results leaves.  This is the reference
for every binding of the rows to machine code.  `fma` is right to within one rounding of an 80-bit sum, or for float32
of a 64-bit sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from numstax.dtypes import BFLOAT16
from numstax.ir.ops import ELEMENTWISE
from numstax.program import Intrinsic

Lanes = np.ndarray


def evaluate(intrinsic: Intrinsic, *arrays: Lanes) -> Lanes:
    """The intrinsic of each lane of `arrays`, whose dtypes are those of `intrinsic.params`."""
    values: list[Lanes] = []
    with np.errstate(all="ignore"):
        for op, dtype, *operands in intrinsic.code:
            kind = _numpy_dtype(str(dtype))
            if op == "param":
                values.append(np.asarray(arrays[operands[0]], kind))  # type: ignore[call-overload]
            elif op == "const":
                values.append(np.asarray(operands[0], kind))
            elif op in ("fcmp", "icmp"):
                predicate, a, b = operands
                values.append(_compare(str(predicate), values[a], values[b]))  # type: ignore[call-overload]
            elif op == "lookup":
                table, index = operands
                values.append(np.asarray(table, kind)[values[index]])  # type: ignore[call-overload]
            else:
                lanes = [values[k] for k in operands]  # type: ignore[call-overload]
                values.append(np.asarray(OPCODES[str(op)](kind, *lanes)).astype(kind))
    return values[-1]


def _numpy_dtype(name: str) -> np.dtype:
    return np.dtype(bool) if name == "b1" else np.dtype(f"{name[0]}{int(name[1:]) // 8}")


def _compare(predicate: str, a: Lanes, b: Lanes) -> Lanes:
    """LLVM's predicates: o.. (ordered) and u.. (or unordered) on floats, s.., u.., eq, ne on integers."""
    relation = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    if a.dtype.kind != "f":
        return np.asarray(relation[predicate[-2:]](a, b))
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in ("ord", "uno"):
        return np.asarray(unordered if predicate == "uno" else ~unordered)
    holds = relation[predicate[1:]](a, b)
    return np.asarray(holds | unordered if predicate[0] == "u" else holds & ~unordered)


def _fma(kind: np.dtype, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """Split both factors so that the partial products are exact in extended precision."""
    if kind == np.float32:
        return np.asarray(a.astype(np.float64) * b + c)
    wide = np.longdouble
    mask = np.uint64(0xFFFFFFFFF8000000)
    a_hi, b_hi = ((v.view(np.uint64) & mask).view(np.float64) for v in (a, b))
    a1, a0, b1, b0 = (v.astype(wide) for v in (a_hi, a - a_hi, b_hi, b - b_hi))
    exact = (a1 * b1 + c.astype(wide)) + (a1 * b0 + a0 * b1) + a0 * b0
    plain = a * b + c
    return np.where(np.isfinite(exact), exact, plain.astype(wide))


def _fma_down(kind: np.dtype, a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    exact = _fma(kind, a, b, c)
    near = exact.astype(kind)
    return np.where(near > exact, np.nextafter(near, kind.type(-np.inf)), near)


def _shift(ufunc: np.ufunc, signed: bool) -> Callable[..., Lanes]:
    def shift(kind: np.dtype, a: Lanes, b: Lanes) -> Lanes:
        as_kind = np.dtype(f"{'i' if signed else 'u'}{kind.itemsize}")
        shifted: Lanes = ufunc(a.view(as_kind), b.view(as_kind))
        return shifted.view(kind)

    return shift


def _leading_zeros(kind: np.dtype, a: Lanes) -> Lanes:
    rest, count = a.view(f"u{kind.itemsize}").copy(), np.full(a.shape, 8 * kind.itemsize)
    while rest.any():
        count -= rest != 0
        rest >>= rest.dtype.type(1)
    return count


def _upper_product(kind: np.dtype, a: Lanes, b: Lanes) -> Lanes:
    return np.asarray(a.astype(object) * b.astype(object) >> 8 * kind.itemsize)


def _select(kind: np.dtype, condition: Lanes, a: Lanes, b: Lanes) -> Lanes:
    return np.where(condition, a, b)


def _fits(row: str) -> Callable[..., Lanes]:
    return lambda _, a, b: ELEMENTWISE[row].reference(a, b)


OPCODES: dict[str, Callable[..., Lanes]] = {
    # op(result dtype, operands): floats
    "fadd": lambda _, a, b: a + b,
    "fsub": lambda _, a, b: a - b,
    "fmul": lambda _, a, b: a * b,
    "fdiv": lambda _, a, b: a / b,
    "frem": lambda _, a, b: np.fmod(a, b),
    "fneg": lambda _, a: -a,
    "fabs": lambda _, a: np.fabs(a),
    "fma": _fma,
    "sqrt": lambda _, a: np.sqrt(a),
    "rint": lambda _, a: np.rint(a),
    "floor": lambda _, a: np.floor(a),
    "ceil": lambda _, a: np.ceil(a),
    "trunc": lambda _, a: np.trunc(a),
    "copysign": lambda _, a, b: np.copysign(a, b),
    # NaN in either operand is the result; -0.0 < 0.0
    "fmaximum": lambda _, a, b: np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b)),
    "fminimum": lambda _, a, b: np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b)),
    # the same, with either zero for equal zeros
    "fmaximum_nsz": lambda _, a, b: np.maximum(a, b),
    "fminimum_nsz": lambda _, a, b: np.minimum(a, b),
    # the compiler may regroup chains of these (and lose the sign of a zero)
    "fadd_reassoc": lambda _, a, b: a + b,
    "fmul_reassoc": lambda _, a, b: a * b,
    # integers, wrapping
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": lambda _, a, b: a * b,
    "umulh": _upper_product,
    "sdiv": lambda _, a, b: a // b + ((a % b != 0) & ((a < 0) != (b < 0))),  # towards zero
    "udiv": lambda _, a, b: a // b,
    "and": lambda _, a, b: a & b,
    "or": lambda _, a, b: a | b,
    "xor": lambda _, a, b: a ^ b,
    "not": lambda _, a: ~a,
    "shl": _shift(np.left_shift, signed=False),
    "lshr": _shift(np.right_shift, signed=False),
    "ashr": _shift(np.right_shift, signed=True),
    "ctlz": _leading_zeros,
    **{f"s{op}_fits": _fits(f"{name}_fits") for op, name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"))},
    "ctpop": lambda _, a: np.bitwise_count(a.view(f"u{a.dtype.itemsize}")),
    # both
    "select": _select,
    # conversions
    "bitcast": lambda kind, a: a.view(kind),
    "sitofp": lambda kind, a: a.astype(kind),
    "uitofp": lambda kind, a: a.view(f"u{a.dtype.itemsize}").astype(kind),
    "fptosi": lambda kind, a: a.astype(kind),
    "fptoui": lambda kind, a: a.astype(kind),
    "fpext": lambda kind, a: a.astype(kind),
    "fptrunc": lambda kind, a: a.astype(kind),
    # on GPUs only: rounded to the nearest (sums and products of bfloat16s are so in two steps, too); cut to [0, 1] (NaN
    # gives 0); rounded downwards; approximations to about 2**-22 and 2**-23
    "round_bf16": lambda kind, a: a.astype(BFLOAT16).astype(kind),
    "fma_bf16": lambda kind, a, b, c: _fma(kind, a, b, c).astype(BFLOAT16).astype(kind),
    "fma_unit": lambda kind, a, b, c: np.fmin(np.fmax(_fma(kind, a, b, c), 0), 1),
    "fma_down": _fma_down,
    "ex2": lambda _, a: np.exp2(a),
    "rcp": lambda kind, a: np.divide(kind.type(1), a),
    "zext": lambda kind, a: a.astype(kind) if a.dtype.kind == "b" else a.view(f"u{a.dtype.itemsize}").astype(kind),
    "sext": lambda kind, a: a.view(f"i{a.dtype.itemsize}").astype(kind),
    "itrunc": lambda kind, a: a.astype(kind),
}
