"""Spelling of transcendental functions of complex numbers, computed on float64 parts.

Templates as in `spelling`.  The inverse functions are Kahan's (Branch cuts for complex elementary functions,
1987), which keep the sign of zero on the branch cuts; a power with a small whole exponent multiplies, as NumPy
does.
"""

from __future__ import annotations

from textwrap import indent

_PARTS = "{r}x, {r}y = float64({a}.real), float64({a}.imag)\n"
_TURNED = "{r}x, {r}y = -float64({a}.imag), float64({a}.real)\n"
"""The parts of i*a: f(a) = -i*g(i*a) gives sin from sinh and so on."""
_RESULT = "complex({p}({r}u), {p}({r}v))"
_TURNED_BACK = "complex({p}({r}v), {p}(-{r}u))"

_EXP = """\
{r}e = exp_f64({r}x)
if {r}y == 0:
    {r}u, {r}v = {r}e, {r}y
elif abs({r}x) == math.inf and not abs({r}y) < math.inf:
    {r}u, {r}v = {r}e, {r}e * 0.0
elif {r}x > 709:
    {r}e = exp_f64({r}x * 0.5)
    {r}u, {r}v = {r}e * cos_f64({r}y) * {r}e, {r}e * sin_f64({r}y) * {r}e
else:
    {r}u, {r}v = {r}e * cos_f64({r}y), {r}e * sin_f64({r}y)
"""
_LOG = """\
{r}h = hypot_f64({r}x, {r}y)
if {r}h > 0.5 and {r}h < 2:
    {r}m, {r}n = maximum_f64(abs({r}x), abs({r}y)), minimum_f64(abs({r}x), abs({r}y))
    {r}u = log1p_f64(({r}m - 1) * ({r}m + 1) + {r}n * {r}n) * 0.5
elif {r}h == math.inf and abs({r}x) < math.inf and abs({r}y) < math.inf:
    {r}u = log_f64(hypot_f64({r}x * 0.5, {r}y * 0.5)) + 0.6931471805599453
else:
    {r}u = log_f64({r}h)
{r}v = arctan2_f64({r}y, {r}x)
"""
_SINH = """\
{r}e = exp_f64(abs({r}x) * 0.5)
if abs({r}x) == math.inf and not abs({r}y) < math.inf:
    {r}u, {r}v = math.inf, math.nan
elif {r}y == 0:
    {r}u, {r}v = sinh_f64({r}x), {r}y
elif {r}x == 0:
    {r}u, {r}v = {r}x * copysign_f64(1.0, cos_f64({r}y)), sin_f64({r}y)
elif abs({r}x) > 709:
    {r}u, {r}v = copysign_f64(0.5, {r}x) * {r}e * cos_f64({r}y) * {r}e, 0.5 * {r}e * sin_f64({r}y) * {r}e
else:
    {r}u, {r}v = sinh_f64({r}x) * cos_f64({r}y), cosh_f64({r}x) * sin_f64({r}y)
"""
_COSH = """\
{r}e = exp_f64(abs({r}x) * 0.5)
if not abs({r}y) < math.inf and ({r}x == 0 or abs({r}x) == math.inf):
    {r}u, {r}v = (math.nan, 0.0) if {r}x == 0 else (math.inf, math.nan)
elif {r}y == 0:
    {r}u, {r}v = cosh_f64({r}x), {r}y * copysign_f64(1.0, {r}x)
elif abs({r}x) > 709:
    {r}u, {r}v = 0.5 * {r}e * cos_f64({r}y) * {r}e, copysign_f64(0.5, {r}x) * {r}e * sin_f64({r}y) * {r}e
else:
    {r}u, {r}v = cosh_f64({r}x) * cos_f64({r}y), sinh_f64({r}x) * sin_f64({r}y)
"""
_TANH = """\
if not abs({r}y) < math.inf:
    {r}u = {r}x if {r}x == 0 else copysign_f64(1.0, {r}x) if abs({r}x) == math.inf else math.nan
    {r}v = copysign_f64(0.0, {r}y) if abs({r}x) == math.inf else math.nan
elif {r}y == 0:
    {r}u, {r}v = tanh_f64({r}x), {r}y
elif abs({r}x) > 22:
    {r}u = copysign_f64(1.0, {r}x)
    {r}v = 4 * sin_f64({r}y) * cos_f64({r}y) * exp_f64(-2 * abs({r}x))
else:
    {r}k, {r}s = tan_f64({r}y), sinh_f64({r}x)
    {r}b = 1 + {r}k * {r}k
    {r}d = 1 + {r}b * {r}s * {r}s
    {r}u, {r}v = {r}b * sqrt_f64(1 + {r}s * {r}s) * {r}s / {r}d, {r}k / {r}d
"""
_ATANH = """\
{r}j = copysign_f64(1.0, {r}x)
{r}x, {r}y = {r}x * {r}j, {r}y * {r}j
{r}q = (1 - {r}x) * (1 - {r}x) + {r}y * {r}y
if {r}x > 1e150 or abs({r}y) > 1e150:
    {r}h = hypot_f64({r}x * 0.5, {r}y * 0.5)
    {r}u = 0.0 if {r}h == math.inf else {r}x * 0.25 / {r}h / {r}h
    {r}v = copysign_f64(1.5707963267948966, {r}y) if {r}x == {r}x or abs({r}y) == math.inf else math.nan
    {r}v = {r}v if {r}y == {r}y else math.nan
elif {r}x == 1 and abs({r}y) < 1e-100:
    {r}u = math.inf if {r}y == 0 else (0.6931471805599453 - log_f64(abs({r}y))) * 0.5
    {r}v = {r}y if {r}y == 0 else copysign_f64(0.7853981633974483, {r}y)
else:
    {r}u = {r}x if {r}x == 0 else log1p_f64(4 * {r}x / {r}q) * 0.25
    {r}v = -arctan2_f64(-2 * {r}y, (1 - {r}x) * (1 + {r}x) - {r}y * {r}y) * 0.5
{r}u, {r}v = {r}u * {r}j, {r}v * {r}j
"""
_LARGE = "{r}l = log_f64(hypot_f64({r}x * 0.5, {r}y * 0.5)) + 1.3862943611198906\n"
"""The logarithm of twice the absolute value, which inverse functions tend to."""
_IS_LARGE = "not (abs({r}x) < 1e150 and abs({r}y) < 1e150)"
"""True of what is not finite, too."""


def _sqrt(x: str, y: str, u: str, v: str) -> str:
    return f"""\
{{r}}g, {{r}}s = 1.0, 1.0
if abs({x}) > 4e307 or abs({y}) > 4e307:
    {{r}}g, {{r}}s = 0.25, 2.0
elif abs({x}) < 1e-290 and abs({y}) < 1e-290:
    {{r}}g, {{r}}s = 18014398509481984.0, 7.450580596923828e-09
{{r}}h = hypot_f64({x} * {{r}}g, {y} * {{r}}g)
{{r}}k = sqrt_f64((abs({x}) * {{r}}g + {{r}}h) * 0.5)
if abs({y}) == math.inf:
    {u}, {v} = math.inf, {y}
elif {{r}}k == 0:
    {u}, {v} = 0.0, {y}
elif {x} >= 0:
    {u}, {v} = {{r}}k * {{r}}s, {y} * {{r}}g / (2 * {{r}}k) * {{r}}s
else:
    {u}, {v} = abs({y}) * {{r}}g / (2 * {{r}}k) * {{r}}s, copysign_f64({{r}}k * {{r}}s, {y})
"""


def _inverse(large: tuple[str, str], first: tuple[str, str], second: tuple[str, str], parts: tuple[str, str]) -> str:
    """u and v : `large` beyond 1e150; else `parts`, by two square roots, c + di and e + fi."""
    c, d, e, f = (f"{{r}}{name}" for name in "cdef")
    one, two = (f"{{r}}p, {{r}}q = {x}, {y}\n" for x, y in (first, second))
    roots = one + _sqrt("{r}p", "{r}q", c, d) + two + _sqrt("{r}p", "{r}q", e, f)
    small = f"{roots}{{r}}u, {{r}}v = {', '.join(parts)}\n"
    return f"if {_IS_LARGE}:\n    {_LARGE}    {{r}}u, {{r}}v = {', '.join(large)}\nelse:\n{indent(small, '    ')}"


_ASINH = _inverse(
    ("copysign_f64({r}l, {r}x)", "{r}y if {r}x != {r}x and {r}y == 0 else arctan2_f64({r}y, abs({r}x))"),
    ("1 + {r}y", "-{r}x"),
    ("1 - {r}y", "{r}x"),
    ("arcsinh_f64({r}c * {r}f - {r}e * {r}d)", "arctan2_f64({r}y, {r}c * {r}e - {r}d * {r}f)"),
)
_ACOS = _inverse(
    (
        "1.5707963267948966 if {r}x == 0 and {r}y != {r}y else arctan2_f64(abs({r}y), {r}x)",
        "-copysign_f64({r}l, {r}y)",
    ),
    ("1 - {r}x", "-{r}y"),
    ("1 + {r}x", "{r}y"),
    ("2 * arctan2_f64({r}c, {r}e)", "arcsinh_f64({r}e * {r}d - {r}f * {r}c)"),
)
_ACOSH = _inverse(
    ("{r}l", "1.5707963267948966 if {r}x == 0 and {r}y != {r}y else arctan2_f64({r}y, {r}x)"),
    ("{r}x - 1", "{r}y"),
    ("{r}x + 1", "{r}y"),
    ("arcsinh_f64({r}c * {r}e + {r}d * {r}f)", "2 * arctan2_f64({r}d, {r}e)"),
)
_EXPM1 = """\
{r}s = sin_f64({r}y * 0.5)
{r}u = expm1_f64({r}x) * cos_f64({r}y) - 2 * {r}s * {r}s
{r}v = exp_f64({r}x) * sin_f64({r}y)
"""
_LOG1P = """\
{r}h = hypot_f64({r}x + 1, {r}y)
{r}u, {r}v = log_f64({r}h), arctan2_f64({r}y, {r}x + 1)
"""
_POWER = (
    _PARTS
    + """\
{r}w, {r}z = float64({b}.real), float64({b}.imag)
{r}i = int64({r}w) if abs({r}w) < 100 else int64(0)
if {r}w == 0 and {r}z == 0:
    {r}u, {r}v = 1.0, 0.0
elif {r}w == 1 and {r}z == 0:
    {r}u, {r}v = {r}x, {r}y
elif {r}x == 0 and {r}y == 0:
    {r}u = 0.0 if {r}w > 0 else math.nan
    {r}v = {r}u
elif {r}z == 0 and ({r}w == 2 or {r}w == 3):
    {r}u, {r}v = {r}x * {r}x - {r}y * {r}y, {r}x * {r}y + {r}y * {r}x
    if {r}w == 3:
        {r}u, {r}v = {r}u * {r}x - {r}v * {r}y, {r}u * {r}y + {r}v * {r}x
elif {r}z == 0 and {r}i == {r}w:
    {r}k, {r}u, {r}v, {r}c, {r}d = abs({r}i), 1.0, 0.0, {r}x, {r}y
    while {r}k > 0:
        if {r}k & 1:
            {r}u, {r}v = {r}u * {r}c - {r}v * {r}d, {r}u * {r}d + {r}v * {r}c
        {r}c, {r}d = {r}c * {r}c - {r}d * {r}d, {r}c * {r}d + {r}d * {r}c
        {r}k = {r}k >> 1
    if {r}i < 0:
        {r}q = {r}u * {r}u + {r}v * {r}v
        {r}u, {r}v = {r}u / {r}q, -{r}v / {r}q
else:
"""
    + "".join(f"    {line}\n" for line in _LOG.splitlines())
    + "    {r}x, {r}y = {r}w * {r}u - {r}z * {r}v, {r}w * {r}v + {r}z * {r}u\n"
    + "".join(f"    {line}\n" for line in _EXP.splitlines())
    + _RESULT
)

COMPLEX_FUNCTIONS: dict[str, str] = {
    "sqrt": _PARTS + _sqrt("{r}x", "{r}y", "{r}u", "{r}v") + _RESULT,
    "exp": _PARTS + _EXP + _RESULT,
    "exp2": _PARTS + "{r}x, {r}y = {r}x * 0.6931471805599453, {r}y * 0.6931471805599453\n" + _EXP + _RESULT,
    "expm1": _PARTS + _EXPM1 + _RESULT,
    "log": _PARTS + _LOG + _RESULT,
    "log2": _PARTS + _LOG + "complex({p}({r}u * 1.4426950408889634), {p}({r}v * 1.4426950408889634))",
    "log10": _PARTS + _LOG + "complex({p}({r}u * 0.4342944819032518), {p}({r}v * 0.4342944819032518))",
    "log1p": _PARTS + _LOG1P + _RESULT,
    "power": _POWER,
    "float_power": _POWER,
    "sinh": _PARTS + _SINH + _RESULT,
    "cosh": _PARTS + _COSH + _RESULT,
    "tanh": _PARTS + _TANH + _RESULT,
    "sin": _TURNED + _SINH + _TURNED_BACK,
    "cos": _TURNED + _COSH + _RESULT,
    "tan": _TURNED + _TANH + _TURNED_BACK,
    "arcsinh": _PARTS + _ASINH + _RESULT,
    "arccosh": _PARTS + _ACOSH + _RESULT,
    "arctanh": _PARTS + _ATANH + _RESULT,
    "arcsin": _TURNED + _ASINH + _TURNED_BACK,
    "arccos": _PARTS + _ACOS + _RESULT,
    "arctan": _TURNED + _ATANH + _TURNED_BACK,
}
