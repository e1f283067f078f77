"""Sizes: tuples of Index as shapes, and `Size`, what the user's program gets for a size that is a symbol.

Decisions about sizes are those of the ShapeEnvironment; here is what needs none.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from numstax.errors import AxisError, ShapeError, is_asked_by_program
from numstax.ir.index import Index, Symbol, as_index, atoms, hint, product
from numstax.trace.origin import user_origin

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

Shape = tuple[Index, ...]


def size_of(value: Any) -> Index:
    """A Size, or anything that Python takes for an integer, as an Index."""
    if isinstance(value, Index):
        return value
    return value.index if type(value) is Size else as_index(operator.index(value))


def as_shape(shape: SupportsIndex | Sequence[SupportsIndex]) -> Shape:
    """A size or a sequence of sizes, as a shape."""
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(map(size_of, sizes))


def total(shape: Shape) -> Index:
    return product(shape)


def text(shape: Sequence[object]) -> str:
    """A shape as NumPy prints it in broadcasting errors: ``(3,)``, ``(2,3)``."""
    return "(" + ",".join(map(shown, shape)) + ("," if len(shape) == 1 else "") + ")"


def shown(size: object) -> str:
    """A size in an error: what it is in the call that is traced, where that is known."""
    if isinstance(size, Index) and all(a.hint is not None for a in atoms(size) if isinstance(a, Symbol)):
        return str(hint(size))
    return str(size)


def normalize_axis(axis: SupportsIndex, ndim: int, name: str = "") -> int:
    k = operator.index(axis)
    if not -ndim <= k < ndim:
        prefix = f"{name}: " if name else ""
        remedy = f"use an axis from {-ndim} to {ndim - 1}" if ndim else "use an array that has axes"
        raise AxisError(f"{prefix}axis {k} is out of bounds for array of dimension {ndim}", user_origin(), remedy)
    return k % ndim


def normalize_axes(axis: object, ndim: int) -> tuple[int, ...]:
    """None (all axes), an axis or a sequence of axes, as non-negative numbers in the order given."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple(axis) if isinstance(axis, tuple | list | range) else (axis,)
    out = tuple(normalize_axis(a, ndim) for a in axes)
    if len(set(out)) != len(out):
        raise ShapeError("duplicate value in 'axis'", user_origin())
    return out


# --- what the program sees ----------------------------------------------------------------------------


def _arithmetic(op: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator that keeps integers symbolic, and its reflection; with other numbers the value is a traced one."""

    def apply(a: Any, b: Any, size: Size) -> Any:
        if type(a) in _INTEGERS and type(b) in _INTEGERS and op in _SYMBOLIC:
            return size.recorder.size(_SYMBOLIC[op](size, size_of(a), size_of(b)))
        if type(a) in _NUMBERS and type(b) in _NUMBERS:
            return op(*(size.recorder.lift(v) for v in (a, b)))
        return NotImplemented

    return lambda self, other: apply(self, other, self), lambda self, other: apply(other, self, self)


def _floor(part: int) -> Callable[[Size, Index, Index], Index]:
    """Quotient (part 0) and remainder (1) with the sign rules of Python."""

    def divide(size: Size, a: Index, b: Index) -> Index:
        shapes = size.recorder.shapes
        if shapes.equal(b, 0):
            raise ZeroDivisionError("integer division or modulo by zero")
        sign = 1 if shapes.at_least(b, 1) else -1
        a, b = shapes.resolve(a) * sign, shapes.resolve(b) * sign
        return a // b if part == 0 else (a % b) * sign

    return divide


_SYMBOLIC: dict[Callable[[Any, Any], Any], Callable[[Any, Index, Index], Index]] = {
    operator.add: lambda size, a, b: a + b,
    operator.sub: lambda size, a, b: a - b,
    operator.mul: lambda size, a, b: a * b,
    operator.floordiv: _floor(0),
    operator.mod: _floor(1),
}


def _comparison(relation: str, sign: int, shift: int) -> Callable[[Size, Any], Any]:
    """``sign*(self - other) + shift`` in relation to 0; a float is compared by its next integer."""

    def compare(self: Size, other: Any) -> Any:
        if type(other) is float:
            return self._compare_float(relation, sign, shift, other)
        if type(other) not in _INTEGERS:
            return NotImplemented
        return self.recorder.condition(relation, (self.index - size_of(other)) * sign + shift)

    return compare


def _number(name: str) -> Callable[..., Any]:
    """A method of int that needs the value."""
    return lambda self, *args: getattr(self.recorder.shapes.number(self.index), name)(*args)


class Size:
    """An integer made of sizes.  Sums, products, quotients and remainders stay symbolic; comparisons are decided;
    where Python or NumPy needs the number itself, the sizes in it become constants of this artifact."""

    __slots__ = ("index", "recorder")

    def __init__(self, recorder: Recorder, index: Index) -> None:
        self.recorder, self.index = recorder, index

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """isinstance answers as for the int this stands for."""
        return int

    def __repr__(self) -> str:
        return str(int(self)) if is_asked_by_program() else str(self.index)

    __add__, __radd__ = _arithmetic(operator.add)
    __sub__, __rsub__ = _arithmetic(operator.sub)
    __mul__, __rmul__ = _arithmetic(operator.mul)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv)
    __mod__, __rmod__ = _arithmetic(operator.mod)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv)

    __ge__, __gt__ = _comparison(">=", 1, 0), _comparison(">=", 1, -1)
    __le__, __lt__ = _comparison(">=", -1, 0), _comparison(">=", -1, -1)
    __eq__, __ne__ = _comparison("==", 1, 0), _comparison("!=", 1, 0)

    def _compare_float(self, relation: str, sign: int, shift: int, other: float) -> Any:
        if not math.isfinite(other):
            return {"==": False, "!=": True}.get(relation, other * sign < 0)
        whole = other.is_integer()
        if relation != ">=" and not whole:
            return relation == "!="
        # n >= 2.5 and n > 2.5 are n >= 3; n <= 2.5 and n < 2.5 are n <= 2
        nearest = math.ceil(other) if sign > 0 else math.floor(other)
        return self.recorder.condition(relation, (self.index - nearest) * sign + (shift if whole else 0))

    def __bool__(self) -> bool:
        return self.recorder.shapes.holds("!=", self.index)

    def __neg__(self) -> Any:
        return self.recorder.size(-self.index)

    def __pos__(self) -> Any:
        return self

    __trunc__ = __floor__ = __ceil__ = conjugate = __pos__

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(int(self), digits)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if type(exponent) is int and 0 <= exponent <= 8 and modulus is None:
            return self.recorder.size(product([self.index] * exponent))
        if type(exponent) is float and modulus is None and self >= 0:
            return self.recorder.operator("power", self.recorder.lift(self), exponent)
        return pow(int(self), exponent, modulus)

    __index__, __int__, __hash__ = _number("__index__"), _number("__int__"), _number("__hash__")
    __float__, __complex__, __str__ = _number("__float__"), _number("__complex__"), _number("__str__")
    __rpow__, __lshift__, __rlshift__ = _number("__rpow__"), _number("__lshift__"), _number("__rlshift__")
    __rshift__, __rrshift__ = _number("__rshift__"), _number("__rrshift__")
    __and__, __rand__, __or__, __ror__ = (_number(f"__{op}__") for op in ("and", "rand", "or", "ror"))
    __xor__, __rxor__, __invert__ = _number("__xor__"), _number("__rxor__"), _number("__invert__")
    __format__ = _number("__format__")

    @property
    def real(self) -> Any:
        return self

    imag, numerator, denominator = 0, real, 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self.recorder.shapes.number(self.index), name)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        lifted = [self.recorder.lift(x) if type(x) is Size else x for x in inputs]
        return self.recorder.ufunc(ufunc, method, lifted, kwargs)


_INTEGERS = (int, bool, Size)
_NUMBERS = (int, bool, float, complex, Size)


class Condition:
    """A comparison of sizes whose answer is not known: `numstax.check` takes it as it is, a branch does not."""

    __hash__ = None  # type: ignore[assignment]
    __slots__ = ("index", "recorder", "relation")

    def __init__(self, recorder: Recorder, relation: str, index: Index) -> None:
        self.recorder, self.relation, self.index = recorder, relation, index

    def __bool__(self) -> bool:
        return self.recorder.shapes.holds(self.relation, self.index)

    def __repr__(self) -> str:
        return f"{self.index} {self.relation} 0"
