"""The text of a view of a named array, for the wrapper: the array itself where that is the view, or a new ndarray.

`Layouts` knows the arrays of a Plan whose shape and strides are numbers.  Making views through NumPy's as_strided
takes microseconds, so what is known when the wrapper is printed is not asked when it runs.
"""

from __future__ import annotations

from math import prod

import numpy as np

from numstax.program import Allocate, ArrayExpr, ControlStep, Plan, all_steps
from numstax.records import record


@record
class _Layout:
    """Strides in elements; that of an axis of one element says nothing."""

    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        return all(s == c for s, c, n in zip(self.strides, _contiguous(self.shape), self.shape, strict=True) if n != 1)


class Layouts:
    def __init__(self, plan: Plan) -> None:
        steps = list(all_steps(plan.steps))
        turning = {a for s in steps if isinstance(s, ControlStep) for pair in s.rotate for a in pair}
        self._known: dict[str, _Layout] = {}
        for argument in plan.arguments:
            numbers = _numbers(argument.shape), _numbers(argument.strides)
            shape, strides = numbers
            if argument.kind == "array" and shape is not None and strides is not None and len(shape) == len(strides):
                self._known[argument.name] = _Layout(argument.dtype, shape, strides)
        for step in steps:
            shape = _numbers(step.shape) if isinstance(step, Allocate) else None
            if isinstance(step, Allocate) and shape is not None:
                self._known[step.name] = _Layout(step.dtype, shape, _contiguous(shape))
        for name in turning & self._known.keys():
            del self._known[name]

    def spelled(self, view: ArrayExpr, dtype: str) -> str | None:
        """The view as an expression; `dtype` is the text of its dtype.  None where more has to be asked."""
        known, offset = self._known.get(view.array), _numbers((view.offset,))
        shape, strides = _numbers(view.shape), _numbers(view.strides)
        if known is None or offset is None or shape is None or strides is None or known.dtype != view.dtype:
            return None
        size = view.dtype.itemsize
        alike = all(a == b for a, b, n in zip(strides, known.strides, shape, strict=False) if n != 1)
        if offset == (0,) and shape == known.shape and alike:
            return view.array
        if not known.contiguous or not prod(shape) or not prod(known.shape):
            return None
        steps = tuple(s * size for s in strides)
        return f"ndarray({shape}, {dtype}, {view.array}, {offset[0] * size}, {steps})"


def _numbers(texts: tuple[str, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(map(int, texts))
    except ValueError:
        return None


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
