"""The spelling of every elementwise operation, for each kind of operand, with exactly NumPy's meaning.

A row is a template: ``{a} {b} {c}`` are the operands (names or literals), ``{t}`` and ``{o}`` the Numba types
of result and first operand, ``{s}`` and ``{d}`` the short dtype names of first operand and result, ``{w}`` the
operand's bits and ``{r}`` a prefix for temporaries.  All lines but the last are statements; the last line is
the expression.  Kinds are those of `dtypes.kind`, and where they differ from other
floats, 'h' float16 and 'm' the floats of ml_dtypes; all of those are computed in float32 and then rounded.
"""

from __future__ import annotations

import numpy as np

from numstax import dtypes
from numstax.emit.complex_functions import COMPLEX_FUNCTIONS
from numstax.emit.complex_spelling import COMPLEX
from numstax.emit.values import literal, register_type, rounded, truth
from numstax.errors import CompileError
from numstax.records import record


@record
class Spelled:
    """Statements to print first, and the expression of the result."""

    statements: tuple[str, ...]
    expression: str


_Rows = dict[str, str]

_DIVMOD = """\
{r}m = fmod_{s}({a}, {b})
{r}d = ({a} - {r}m) / {b}
if {r}m != 0 and ({b} < 0) != ({r}m < 0):
    {r}m += {b}
    {r}d -= {t}(1)
"""
_ARITHMETIC: dict[str, _Rows] = {
    "add": {"b": "{a} | {b}", "iu": "{t}({a} + {b})", "f": "{a} + {b}"},
    "subtract": {"iu": "{t}({a} - {b})", "f": "{a} - {b}"},
    "multiply": {"b": "{a} & {b}", "iu": "{t}({a} * {b})", "f": "{a} * {b}"},
    "divide": {"f": "{a} / {b}"},
    "negative": {"iu": "{t}({u}(0) - {u}({a}))", "f": "-{a}"},
    "positive": {"iuf": "{a}"},
    "absolute": {"bu": "{a}", "i": "{t}({t}({u}(0) - {u}({a})) if {a} < 0 else {a})", "f": "abs({a})"},
    "fabs": {"f": "abs({a})"},
    "sign": {
        "i": "({t}(1) if {a} > 0 else {t}(-1) if {a} < 0 else {t}(0))",
        "u": "({t}(1) if {a} > 0 else {t}(0))",
        "f": "({t}(1) if {a} > 0 else {t}(-1) if {a} < 0 else {t}(0) if {a} == 0 else {a})",
        "m": "({t}(1) if {a} > 0 else {t}(-1) if {a} < 0 else {a})",
    },
    "square": {"iu": "{t}({a} * {a})", "f": "{a} * {a}"},
    "reciprocal": {
        "i": "({a} if {a} == 1 or {a} == -1 else {none} if {a} == 0 else {t}(0))",
        "u": "({a} if {a} == 1 else {none} if {a} == 0 else {t}(0))",
        "f": "{t}(1) / {a}",
    },
    "conjugate": {"iuf": "{a}"},
    # what is only added to, or multiplied, again and again
    "add_in_any_order": {"f": "add_reassoc_{s}({a}, {b})"},
    "subtract_in_any_order": {"f": "add_reassoc_{s}({a}, -({b}))"},
    "multiply_in_any_order": {"f": "mul_reassoc_{s}({a}, {b})"},
    # good enough for a result of 16 bits
    **{name: {"f": f"{name}_{{s}}({{a}})"} for name in ("exp_low", "tanh_low", "erf_low")},
    "maximum": {
        "b": "{a} | {b}",
        "iu": "({a} if {a} >= {b} else {b})",
        "f": "maximum_{s}({a}, {b})",
        "h": "({a} if ({a} >= {b}) | ({a} != {a}) else {b})",
    },
    "minimum": {
        "b": "{a} & {b}",
        "iu": "({a} if {a} <= {b} else {b})",
        "f": "minimum_{s}({a}, {b})",
        "h": "({a} if ({a} <= {b}) | ({a} != {a}) else {b})",
    },
    "fmax": {
        "b": "{a} | {b}",
        "iu": "({a} if {a} >= {b} else {b})",
        "f": "({a} if ({a} > {b}) | ({b} != {b}) else {b})",
        "h": "({a} if ({a} >= {b}) | ({b} != {b}) else {b})",
    },
    "fmin": {
        "b": "{a} & {b}",
        "iu": "({a} if {a} <= {b} else {b})",
        "f": "({a} if ({a} < {b}) | ({b} != {b}) else {b})",
        "h": "({a} if ({a} <= {b}) | ({b} != {b}) else {b})",
    },
    "floor_divide": {
        "iu": "floor_divide_{s}({a}, {b})",
        "f": _DIVMOD
        + """\
{r}q = floor_{s}({r}d)
if {r}d - {r}q > {t}(0.5):
    {r}q += {t}(1)
({a} / {b} if {b} == 0 else {r}q if {r}d != 0 else copysign_{s}({t}(0), {a} / {b}))""",
    },
    "remainder": {
        "iu": "remainder_{s}({a}, {b})",
        "f": _DIVMOD + "({r}m if ({r}m != 0) | ({b} == 0) else copysign_{s}({t}(0), {b}))",
    },
    "fmod": {"iuf": "fmod_{s}({a}, {b})"},
    "power": {
        "iu": """\
{r}p, {r}x, {r}n = {t}(1), {a}, {b}
if {r}n < 0:
    {r}p = {t}(1) if {r}x == 1 else {t}(0)
    if {negative_one}:
        {r}p = {t}(-1) if {r}n & {t}(1) else {t}(1)
while {r}n > 0:
    if {r}n & {t}(1):
        {r}p = {t}({u}({r}p) * {u}({r}x))
    {r}x = {t}({u}({r}x) * {u}({r}x))
    {r}n = {t}({r}n >> {t}(1))
{r}p""",
        "f": "power_{s}({a}, {b})",
    },
    "float_power": {"f": "power_{s}({a}, {b})"},
    "cube": {"f": "cube_{s}({a})"},
    "fourth_power": {"f": "fourth_power_{s}({a})"},
    "rsqrt": {"f": "rsqrt_{s}({a})"},
    "sqrt_cubed": {"f": "sqrt_cubed_{s}({a})"},
    "rsqrt_cubed": {"f": "rsqrt_cubed_{s}({a})"},
    "sqrt": {"f": "sqrt_{s}({a})"},
    "gcd": {
        "iu": """\
{r}x, {r}y = {magnitude_a}, {magnitude_b}
while {r}y != 0:
    {r}x, {r}y = {r}y, {u}({r}x % {r}y)
{t}({r}x)"""
    },
    "lcm": {
        "iu": """\
{r}x, {r}y = {magnitude_a}, {magnitude_b}
{r}p, {r}q = {r}x, {r}y
while {r}y != 0:
    {r}x, {r}y = {r}y, {u}({r}x % {r}y)
({t}({r}p // {r}x * {r}q) if {r}x != 0 else {t}(0))"""
    },
    "heaviside": {
        "f": "({b} if {a} == 0 else {t}(0) if {a} < 0 else {t}(1) if {a} > 0 else {a})",
    },
    "ldexp": {"f": "{t}(ldexp_f64(float64({a}), int64({b})))"},
    "copysign": {"f": "copysign_{s}({a}, {b})"},
    **{name: {"i": f"{name}_{{s}}({{a}}, {{b}})"} for name in ("add_fits", "subtract_fits", "multiply_fits")},
}
_ARITHMETIC["deg2rad"] = _ARITHMETIC["radians"] = {"f": "{a} * {degree}"}
_ARITHMETIC["rad2deg"] = _ARITHMETIC["degrees"] = {"f": "{a} * {radian}"}
for _name in ("floor", "ceil", "trunc", "rint"):
    _ARITHMETIC[_name] = {"biu": "{a}", "f": f"{_name}_{{s}}({{a}})"}

_LOGIC: dict[str, _Rows] = {
    "logical_and": {"biuf": "{truth_a} & {truth_b}"},
    "logical_or": {"biuf": "{truth_a} | {truth_b}"},
    "logical_xor": {"biuf": "{truth_a} != {truth_b}"},
    "logical_not": {"biuf": "not {truth_a}"},
    "isnan": {"biu": "False", "f": "{a} != {a}"},
    "isinf": {"biu": "False", "f": "abs({a}) == {o}(math.inf)"},
    "isfinite": {"biu": "True", "f": "abs({a}) < {o}(math.inf)"},
    "signbit": {"f": "signbit_{s}({a})"},
    "where": {"biufc": "({b} if {a} else {c})"},
    "real": {"biuf": "{a}"},
    "imag": {"b": "False", "iuf": "{t}(0)"},
    "complex": {"f": "complex({a}, {b})"},
}
_COMPARISONS = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
for _name, _sign in _COMPARISONS.items():
    _LOGIC[_name] = {"biuf": f"{{a}} {_sign} {{b}}"}

_BITS: dict[str, _Rows] = {
    "bitwise_and": {"b": "{a} & {b}", "iu": "{t}({a} & {b})"},
    "bitwise_or": {"b": "{a} | {b}", "iu": "{t}({a} | {b})"},
    "bitwise_xor": {"b": "{a} != {b}", "iu": "{t}({a} ^ {b})"},
    "invert": {"b": "not {a}", "iu": "{t}(~{a})"},
    "left_shift": {"iu": "({t}({a} << {b}) if ({b} >= 0) & ({b} < {w}) else {t}(0))"},
    "right_shift": {
        "i": "{t}({a} >> ({b} if ({b} >= 0) & ({b} < {w}) else {t}({w} - 1)))",
        "u": "({t}({a} >> {b}) if {b} < {w} else {t}(0))",
    },
    "bitwise_count": {"iu": "{t}(popcount_{us}({magnitude_a}))"},
    "nextafter": {"f": "nextafter_{s}({a}, {b})"},
    "spacing": {
        "f": "(nextafter_{s}({a}, copysign_{s}({o}(math.inf), {a} + {o}(0))) - {a} "
        "if abs({a}) < {o}(math.inf) else {o}(math.nan))"
    },
}
_FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh "
    "arctan2 cbrt hypot erf erfc logaddexp logaddexp2 expit logit xlogy"
).split()
_TRANSCENDENTAL: dict[str, _Rows] = {
    name: {
        "f": f"{name}_{{s}}({{a}}, {{b}})"
        if name in ("arctan2", "hypot", "logaddexp", "logaddexp2", "xlogy")
        else f"{name}_{{s}}({{a}})"
    }
    for name in _FUNCTIONS
}

SPELLING: dict[str, _Rows] = {**_ARITHMETIC, **_LOGIC, **_BITS, **_TRANSCENDENTAL}
"""Operation -> kinds of the first operand (of the second for `where`) -> template."""

_COMPLEX = COMPLEX | COMPLEX_FUNCTIONS
_EXACT = frozenset(
    "positive negative absolute fabs sign maximum minimum fmax fmin copysign where conjugate real imag floor ceil "
    "trunc rint heaviside nextafter spacing".split()
)
"""Operations whose float32 result on half floats is already a half float."""


def template(op: str, kind: str) -> str | None:
    """The row of an operation for a kind of operand."""
    if kind == "c" and op in _COMPLEX:
        return _COMPLEX[op]
    rows = SPELLING.get(op, {})
    found = next((text for kinds, text in rows.items() if kind in kinds), None)
    return template(op, "f") if found is None and kind in "hm" else found


POWERS: dict[object, str] = {3: "cube", 4: "fourth_power", -0.5: "rsqrt", 1.5: "sqrt_cubed", -1.5: "rsqrt_cubed"}
"""What a power of floats with this constant exponent is printed as."""
_WRAPPING = ("add", "subtract", "multiply", "square")
"""Numba lets LLVM assume that int64 arithmetic does not overflow (narrower integers it computes in int64):
NumPy's wraps, so it is done unsigned."""


def spell(op: str, operands: tuple[np.dtype, ...], result: np.dtype, args: tuple[str, ...], prefix: str) -> Spelled:
    """The text of one operation; `prefix` starts the names of temporaries."""
    main = operands[1] if op == "where" else operands[0]
    kinds = {dtypes.kind(d) for d in operands}
    if op in _COMPARISONS and kinds == {"i", "u"}:
        return Spelled((), _mixed_comparison(op, operands, args))
    if dtypes.is_low(main) and op in ("nextafter", "spacing"):
        return Spelled((), _low_neighbour(op, main, args))
    row = template(op, "h" if main == dtypes.FLOAT16 else "m" if dtypes.is_low(main) else dtypes.kind(main))
    if row is None:
        raise CompileError(f"no spelling of {op} for {main}", remedy="report this as a bug in numstax")
    compute = dtypes.compute(operands[0])
    bits = 8 * compute.itemsize
    if main == dtypes.INT64 and op in _WRAPPING:
        args = tuple(f"uint64({text})" for text in args)
    fields = dict(zip("abc", args, strict=False))
    fields |= {f"truth_{n}": truth(text, d) for n, text, d in zip("abc", args, operands, strict=False)}
    if dtypes.kind(main) in "iu":
        fields |= {f"magnitude_{n}": _magnitude(text, d) for n, text, d in zip("abc", args, operands, strict=False)}
        fields["negative_one"] = f"{args[0]} == -1" if dtypes.kind(main) == "i" else "False"
        fields["none"] = literal(_INVALID[main.name], main)
    elif dtypes.kind(compute) == "f":
        half_turn, pi = compute.type(180), compute.type(np.pi)
        fields["degree"], fields["radian"] = literal(pi / half_turn, compute), literal(half_turn / pi, compute)
    text = row.format(
        t=register_type(result),
        o=register_type(operands[0]),
        s=dtypes.name(compute),
        d=dtypes.name(dtypes.compute(result)),
        w=bits,
        u=f"uint{bits}",
        us=f"u{bits}",
        p=f"float{bits // 2}",
        ps=f"f{bits // 2}",
        r=prefix,
        **fields,
    )
    *statements, expression = text.split("\n")
    if op not in _EXACT:
        expression = rounded(expression, result)
    if main == result == dtypes.BFLOAT16 and op in _AT_ONCE:
        expression = f"{op}_bf16({', '.join(args)})"
    return Spelled(tuple(statements), expression)


_AT_ONCE = ("add", "subtract", "multiply")
"""What a machine may compute with the rounding to bfloat16 in it."""


_INVALID = {f"{sign}int{bits}": 0 for sign in ("", "u") for bits in (8, 16)} | {
    "int32": -(1 << 31),
    "uint32": 0,
    "int64": -(1 << 63),
    "uint64": 0,
}
"""What an infinite float64 becomes as an integer on x86: the reciprocal of zero."""


def _magnitude(text: str, dtype: np.dtype) -> str:
    unsigned = f"uint{8 * dtype.itemsize}"
    if dtypes.kind(dtype) == "u":
        return text
    return f"{unsigned}({dtype.name}(0) - {text} if {text} < 0 else {text})"


def _mixed_comparison(op: str, operands: tuple[np.dtype, ...], args: tuple[str, ...]) -> str:
    """int64 with uint64, by value."""
    a, b = args
    sign = _COMPARISONS[op]
    if dtypes.kind(operands[0]) == "i":
        negative = {"equal": "False", "not_equal": "True", "less": "True", "less_equal": "True"}.get(op, "False")
        return f"({negative} if {a} < 0 else uint64({a}) {sign} {b})"
    negative = {"equal": "False", "not_equal": "True", "greater": "True", "greater_equal": "True"}.get(op, "False")
    return f"({negative} if {b} < 0 else {a} {sign} uint64({b}))"


def _low_neighbour(op: str, dtype: np.dtype, args: tuple[str, ...]) -> str:
    """nextafter and spacing step through the half float's own bit patterns."""
    name = dtypes.name(dtype)
    bits = [f"{name}_from_f32({a})" for a in args]
    if op == "nextafter":
        return f"f32_from_{name}(nextafter_{name}({', '.join(bits)}))"
    inf, nan = literal(np.inf, dtypes.FLOAT32), literal(np.nan, dtypes.FLOAT32)
    return f"(f32_from_{name}(neighbour_{name}({bits[0]})) - {args[0]} if abs({args[0]}) < {inf} else {nan})"
