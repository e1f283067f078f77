"""Spelling of operations on complex numbers: the formulas NumPy uses, special values included.

Templates as in `spelling`; ``{p}`` is the Numba type of a part and ``{ps}`` its short dtype name.
"""

from __future__ import annotations

_NAN_A = "({a}.real != {a}.real) | ({a}.imag != {a}.imag)"
_NAN_B = "({b}.real != {b}.real) | ({b}.imag != {b}.imag)"
_ORDERED = "({a}.imag == {a}.imag) & ({b}.imag == {b}.imag)"


def _relation(strict: str, last: str) -> str:
    """Lexicographic order on (real, imag)."""
    return (
        f"({{a}}.real {strict} {{b}}.real) & {_ORDERED} | ({{a}}.real == {{b}}.real) & ({{a}}.imag {last} {{b}}.imag)"
    )


def _quotient(numerator_re: str, numerator_im: str) -> str:
    """Smith's division by b, which does not overflow early."""
    return """\
{r}c, {r}d = {b}.real, {b}.imag
if abs({r}c) >= abs({r}d):
    if {r}c == 0 and {r}d == 0:
        {r}x, {r}y = RE / abs({r}c), IM / abs({r}c)
    else:
        {r}k = {r}d / {r}c
        {r}s = {p}(1) / ({r}c + {r}d * {r}k)
        {r}x, {r}y = (RE + IM * {r}k) * {r}s, (IM - RE * {r}k) * {r}s
else:
    {r}k = {r}c / {r}d
    {r}s = {p}(1) / ({r}d + {r}c * {r}k)
    {r}x, {r}y = (RE * {r}k + IM) * {r}s, (IM * {r}k - RE) * {r}s
complex({r}x, {r}y)""".replace("RE", numerator_re).replace("IM", numerator_im)


_RECIPROCAL = """\
{r}c, {r}d = {a}.real, {a}.imag
if abs({r}d) <= abs({r}c):
    {r}k = {r}d / {r}c
    {r}s = {r}c + {r}d * {r}k
    {r}x, {r}y = {p}(1) / {r}s, -{r}k / {r}s
else:
    {r}k = {r}c / {r}d
    {r}s = {r}c * {r}k + {r}d
    {r}x, {r}y = {r}k / {r}s, {p}(-1) / {r}s
complex({r}x, {r}y)"""

_SIGN = """\
{r}h = hypot_{ps}({a}.real, {a}.imag)
if {r}h != {r}h:
    {r}x, {r}y = {r}h, {r}h
elif {r}h == {p}(math.inf):
    {r}x = copysign_{ps}({p}(1), {a}.real) if abs({a}.real) == {r}h else {p}(0)
    {r}y = {p}(0) if abs({a}.real) == {r}h else copysign_{ps}({p}(1), {a}.imag)
    if abs({a}.real) == {r}h and abs({a}.imag) == {r}h:
        {r}x, {r}y = {p}(math.nan), {p}(math.nan)
elif {r}h == 0:
    {r}x, {r}y = {p}(0), {p}(0)
else:
    {r}x, {r}y = {a}.real / {r}h, {a}.imag / {r}h
complex({r}x, {r}y)"""

COMPLEX: dict[str, str] = {
    "add": "complex({a}.real + {b}.real, {a}.imag + {b}.imag)",
    "subtract": "complex({a}.real - {b}.real, {a}.imag - {b}.imag)",
    "multiply": "complex({a}.real * {b}.real - {a}.imag * {b}.imag, {a}.real * {b}.imag + {a}.imag * {b}.real)",
    "divide": _quotient("{a}.real", "{a}.imag"),
    "negative": "complex(-{a}.real, -{a}.imag)",
    "positive": "{a}",
    "absolute": "hypot_{ps}({a}.real, {a}.imag)",
    "sign": _SIGN,
    "square": "complex({a}.real * {a}.real - {a}.imag * {a}.imag, {a}.real * {a}.imag + {a}.imag * {a}.real)",
    "reciprocal": _RECIPROCAL,
    "conjugate": "complex({a}.real, -{a}.imag)",
    "maximum": f"({{a}} if {_NAN_A} | {_relation('>', '>=')} else {{b}})",
    "minimum": f"({{a}} if {_NAN_A} | {_relation('<', '<=')} else {{b}})",
    "fmax": f"({{a}} if {_NAN_B} | {_relation('>', '>=')} else {{b}})",
    "fmin": f"({{a}} if {_NAN_B} | {_relation('<', '<=')} else {{b}})",
    "equal": "({a}.real == {b}.real) & ({a}.imag == {b}.imag)",
    "not_equal": "({a}.real != {b}.real) | ({a}.imag != {b}.imag)",
    "less": f"({_relation('<', '<')})",
    "less_equal": f"({_relation('<', '<=')})",
    "greater": f"({_relation('>', '>')})",
    "greater_equal": f"({_relation('>', '>=')})",
    "logical_and": "{truth_a} & {truth_b}",
    "logical_or": "{truth_a} | {truth_b}",
    "logical_xor": "{truth_a} != {truth_b}",
    "logical_not": "not {truth_a}",
    "isnan": _NAN_A,
    "isinf": "(abs({a}.real) == {p}(math.inf)) | (abs({a}.imag) == {p}(math.inf))",
    "isfinite": "(abs({a}.real) < {p}(math.inf)) & (abs({a}.imag) < {p}(math.inf))",
    "rint": "complex(rint_{ps}({a}.real), rint_{ps}({a}.imag))",
    "real": "{a}.real",
    "imag": "{a}.imag",
    "complex": "complex({a}.real - {b}.imag, {a}.imag + {b}.real)",
}
