"""Recording scalar functions as data: arithmetic on `Value`s becomes the rows of a `program.Intrinsic`.

`record(name, ("f32",), function)` calls `function` once with a Value for each parameter; what it computes
with operators and the functions below is the intrinsic.  Equal rows are recorded once.  Python numbers
take the dtype of the other operand.  A dtype is a short name: f16 (as bits only) f32 f64, i8 .. i64,
u8 .. u64, b1; the sign of an integer dtype chooses shifts and comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from numstax import records
from numstax.program import Intrinsic

Number = int | float
Row = tuple[object, ...]


@dataclass(slots=True)
class _Tape:
    rows: dict[Row, int] = field(default_factory=dict)

    def add(self, op: str, dtype: str, *operands: object) -> Value:
        # repr in the key keeps 0.0 and -0.0 apart, and NaN equal to itself
        key = (op, dtype, *operands) if op != "const" else (op, dtype, operands[0], repr(operands[0]))
        return Value(self, self.rows.setdefault(key, len(self.rows)), dtype)

    def code(self, last: int) -> tuple[Row, ...]:
        """The rows that row `last` needs, which comes last, renumbered."""
        rows = list(self.rows)
        needed, stack = set(), [last]
        while stack:
            needed.add(k := stack.pop())
            stack += [j for j in _operands(rows[k]) if j not in needed]
        new = {old: k for k, old in enumerate(sorted(needed))}
        return tuple(_renumbered(rows[k], new) for k in new)


def _operands(row: Row) -> tuple[int, ...]:
    first = len(row) if row[0] in ("param", "const") else 3 if row[0] in ("fcmp", "icmp", "lookup") else 2
    return row[first:]  # type: ignore[return-value]


def _renumbered(row: Row, new: dict[int, int]) -> Row:
    operands = _operands(row)
    kept = row[:3] if row[0] == "const" else row[: len(row) - len(operands)]
    return (*kept, *(new[k] for k in operands))


def record(name: str, params: tuple[str, ...], function: Callable[..., Value]) -> Intrinsic:
    """The intrinsic that computes `function` of parameters with these dtypes."""
    tape = _Tape()
    result = function(*(tape.add("param", p, k) for k, p in enumerate(params)))
    return Intrinsic(name, params, result.dtype, tape.code(result.row))


@records.record(eq=False)
class Value:
    """One row of the intrinsic being recorded."""

    tape: _Tape
    row: int
    dtype: str

    def op(self, op: str, *others: Value | Number, dtype: str | None = None) -> Value:
        """Row `op` of this value and others; numbers become constants of this value's dtype."""
        return self.tape.add(op, dtype or self.dtype, self.row, *(self.like(v).row for v in others))

    def like(self, value: Value | Number) -> Value:
        """A number as a constant of this value's dtype."""
        if isinstance(value, Value):
            return value
        return self.tape.add("const", self.dtype, float(value) if self.is_float else int(value))

    @property
    def is_float(self) -> bool:
        return self.dtype[0] == "f"

    def _arithmetic(self, op: str, other: Value | Number) -> Value:
        return self.op(f"f{op}" if self.is_float else op, other)

    def __add__(self, other: Value | Number) -> Value:
        return self._arithmetic("add", other)

    def __radd__(self, other: Number) -> Value:
        return self.like(other) + self

    def __sub__(self, other: Value | Number) -> Value:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Number) -> Value:
        return self.like(other) - self

    def __mul__(self, other: Value | Number) -> Value:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Number) -> Value:
        return self.like(other) * self

    def __truediv__(self, other: Value | Number) -> Value:
        return self.op("fdiv", other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self.op("fneg") if self.is_float else self.like(0) - self

    def __and__(self, other: Value | Number) -> Value:
        return self.op("and", other)

    def __or__(self, other: Value | Number) -> Value:
        return self.op("or", other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.op("xor", other)

    def __invert__(self) -> Value:
        return self.op("not")

    def __lshift__(self, other: Value | Number) -> Value:
        return self.op("shl", other)

    def __rshift__(self, other: Value | Number) -> Value:
        return self.op("ashr" if self.dtype[0] == "i" else "lshr", other)

    def _compare(self, relation: str, other: Value | Number) -> Value:
        if self.is_float:
            op, predicate = "fcmp", "une" if relation == "ne" else f"o{relation}"
        else:
            sign = "" if relation in ("eq", "ne") else "s" if self.dtype[0] == "i" else "u"
            op, predicate = "icmp", sign + relation
        return self.tape.add(op, "b1", predicate, self.row, self.like(other).row)

    def __lt__(self, other: Value | Number) -> Value:
        return self._compare("lt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self._compare("le", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self._compare("gt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self._compare("ge", other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        assert isinstance(other, Value | int | float)
        return self._compare("eq", other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        assert isinstance(other, Value | int | float)
        return self._compare("ne", other)


def fma(a: Value, b: Value | Number, c: Value | Number) -> Value:
    """a*b + c with one rounding."""
    return a.op("fma", b, c)


def polynomial(x: Value, coefficients: Sequence[Number]) -> Value:
    """c[0] + c[1]*x + ..., by Horner's rule."""
    result = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = fma(result, x, c)
    return result


def where(condition: Value, a: Value | Number, b: Value | Number) -> Value:
    """a where the condition holds, else b; one of the two may be a number."""
    like = a if isinstance(a, Value) else b
    assert isinstance(like, Value)
    return condition.tape.add("select", like.dtype, condition.row, like.like(a).row, like.like(b).row)


def at_most(x: Value, limit: Value | Number) -> Value:
    """The smaller of the two; NaN in x stays NaN."""
    return where(x.like(limit) < x, limit, x)


def at_least(x: Value, limit: Value | Number) -> Value:
    """The larger of the two; NaN in x stays NaN."""
    return where(x.like(limit) > x, limit, x)


def is_nan(x: Value) -> Value:
    return x.tape.add("fcmp", "b1", "uno", x.row, x.row)


def absolute(x: Value) -> Value:
    return x.op("fabs")


def copysign(magnitude: Value | Number, sign: Value) -> Value:
    return sign.like(magnitude).op("copysign", sign)


def sqrt(x: Value) -> Value:
    return x.op("sqrt")


def rint(x: Value) -> Value:
    """Nearest integer, ties to even."""
    return x.op("rint")


def floor(x: Value) -> Value:
    return x.op("floor")


def lookup(index: Value, table: tuple[float, ...], dtype: str) -> Value:
    """table[index], for 0 <= index < len(table)."""
    return index.tape.add("lookup", dtype, table, index.row)


def bitcast(x: Value, dtype: str) -> Value:
    return x.op("bitcast", dtype=dtype)


def convert(x: Value, dtype: str) -> Value:
    """The same number in another dtype: rounded between floats, wrapped between integers."""
    source, target = x.dtype, dtype
    if source == target:
        return x
    wider = int(target[1:]) > int(source[1:])
    if source[0] == "f" and target[0] == "f":
        op = "fpext" if wider else "fptrunc"
    elif source[0] == "f":
        op = "fptosi" if target[0] == "i" else "fptoui"
    elif target[0] == "f":
        op = "sitofp" if source[0] == "i" else "uitofp"
    elif int(target[1:]) == int(source[1:]):
        op = "bitcast"
    else:
        op = "itrunc" if not wider else "sext" if source[0] == "i" else "zext"
    return x.op(op, dtype=dtype)
