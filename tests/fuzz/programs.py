"""Random NumPy programs for hypothesis: chains of operations, views and in-place updates.

A program is a list of steps; each step makes a new value from earlier ones or writes into one.  Values carry
whether they are *exact* (the same bits in any correct evaluation): operations that turn a last-place difference
into a large one -- comparisons, casts to integers, argmax, floor -- are only drawn for exact values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

Values = list[np.ndarray]
Step = Callable[[Values], None]
Made = tuple[str, Step, bool] | None

EXACT_UNARY = (np.negative, np.absolute, np.square, np.sign, np.floor, np.rint, np.conjugate, np.logical_not)
SMOOTH_UNARY = (np.tanh, np.sin, np.cos, np.arctan, np.exp2)
EXACT_BINARY = (np.add, np.subtract, np.multiply, np.maximum, np.minimum)
COMPARISONS = (np.less, np.greater_equal, np.equal, np.logical_and, np.logical_or)
REDUCTIONS = ("sum", "max", "min", "mean", "any", "all")
DTYPES = ("f4", "f8", "i4", "i8", "u1", "?", "f2")


@dataclass(frozen=True)
class Program:
    """`inputs` and the steps that `run` performs; `text` says what they are."""

    inputs: tuple[np.ndarray, ...]
    steps: tuple[tuple[str, Step], ...]

    def run(self, *inputs: np.ndarray) -> Values:
        values = list(inputs)
        for _, step in self.steps:
            step(values)
        return values[len(inputs) :]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{a.dtype}{a.shape} strides {a.strides}" for a in self.inputs)
        return f"inputs: {shapes}\n" + "\n".join(text for text, _ in self.steps)


@dataclass
class _State:
    """What NumPy computed so far, to know shapes; `exact[k]` for every value."""

    values: Values
    exact: list[bool]


@st.composite
def inputs(draw: st.DrawFn, largest: tuple[int, ...]) -> np.ndarray:
    """An array that broadcasts to the shape `largest`."""
    sizes = largest[draw(st.sampled_from([0, 0, 0, len(largest) - 1])) :]
    shape = tuple(1 if draw(st.integers(0, 5)) == 0 else size for size in sizes)
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    array = rng.integers(0 if dtype.kind in "ub" else -6, 7, shape)
    array = (array / 4 if dtype.kind == "f" else array).astype(dtype)
    layout = draw(st.sampled_from(["C", "F", "reversed", "gaps"]))
    if layout == "F":
        return np.asfortranarray(array)
    if layout == "reversed":
        return np.ascontiguousarray(array[::-1])[::-1]
    if layout == "gaps":
        wide = np.repeat(array, 2, axis=-1)
        return wide[..., ::2]
    return array


@st.composite
def programs(draw: st.DrawFn) -> Program:
    largest = tuple(draw(st.lists(st.sampled_from([2, 3, 5, 17]), min_size=1, max_size=3)))
    arrays = draw(st.lists(inputs(largest), min_size=1, max_size=3))
    state = _State([a.copy() for a in arrays], [True] * len(arrays))
    steps = []
    for _ in range(draw(st.integers(4, 14))):
        made = draw(st.sampled_from(_MAKERS))(draw, state)
        if made is None:
            continue
        text, step, exact = made
        with np.errstate(all="ignore"):
            before = len(state.values)
            step(state.values)
        if len(state.values) > before:
            state.exact.append(exact)
        steps.append((text, step))
    return Program(tuple(arrays), tuple(steps))


def _pick(draw: st.DrawFn, state: _State) -> int:
    return draw(st.integers(0, len(state.values) - 1))


def _unary(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    kind = state.values[k].dtype.kind
    choice = EXACT_UNARY if state.exact[k] else (np.negative, np.absolute, np.square)
    choice = [f for f in choice if kind != "b" or f in (np.absolute, np.logical_not)]
    function = draw(st.sampled_from([*choice, *(SMOOTH_UNARY if kind == "f" else ())]))
    return (
        f"{function.__name__} v{k}",
        lambda v: v.append(function(v[k])),
        state.exact[k] and function not in SMOOTH_UNARY,
    )


def _binary(draw: st.DrawFn, state: _State) -> Made:
    a, b = _pick(draw, state), _pick(draw, state)
    try:
        np.broadcast_shapes(state.values[a].shape, state.values[b].shape)
    except ValueError:
        return None
    exact = state.exact[a] and state.exact[b]
    both_bool = state.values[a].dtype.kind == state.values[b].dtype.kind == "b"
    choice = [f for f in EXACT_BINARY if not (both_bool and f is np.subtract)]
    function = draw(st.sampled_from([*choice, *(COMPARISONS if exact else ())]))
    return f"{function.__name__} v{a} v{b}", lambda v: v.append(function(v[a], v[b])), exact


def _scalar(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    number = draw(st.sampled_from([2, 3, 0.5, -1.25]))
    if state.values[k].dtype.kind == "u" and number == -1.25:
        return None
    return f"v{k} * {number} + 1", lambda v: v.append(v[k] * number + 1), state.exact[k]


def _where(draw: st.DrawFn, state: _State) -> Made:
    a, b, c = (_pick(draw, state) for _ in range(3))
    try:
        np.broadcast_shapes(*(state.values[k].shape for k in (a, b, c)))
    except ValueError:
        return None
    if not state.exact[a]:
        return None
    return (
        f"where v{a} v{b} v{c}",
        lambda v: v.append(np.where(v[a] > 0, v[b], v[c])),
        state.exact[b] and state.exact[c],
    )


def _reduce(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    name = draw(st.sampled_from(REDUCTIONS))
    x = state.values[k]
    if name in ("any", "all") and not state.exact[k]:
        return None
    axis = draw(st.sampled_from([None, *range(x.ndim)]))
    keep = draw(st.booleans())
    exact = state.exact[k] and (name not in ("sum", "mean") or x.dtype.kind in "iub") and x.dtype != np.float16
    return (
        f"v{k}.{name}({axis}, keepdims={keep})",
        lambda v: v.append(getattr(v[k], name)(axis=axis, keepdims=keep)),
        exact,
    )


def _cumsum(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    if not state.values[k].ndim:
        return None
    axis = draw(st.integers(0, state.values[k].ndim - 1))
    return f"cumsum v{k} {axis}", lambda v: v.append(np.cumsum(v[k], axis)), state.values[k].dtype.kind in "iub"


def _reshape(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    shape = draw(st.sampled_from([(-1,), (1, -1), (-1, 1), (-1, *state.values[k].shape[-1:])]))
    return f"v{k}.reshape{shape}", lambda v: v.append(v[k].reshape(shape)), state.exact[k]


def _transpose(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    axes = tuple(draw(st.permutations(range(state.values[k].ndim))))
    return f"v{k}.transpose{axes}", lambda v: v.append(v[k].transpose(axes)), state.exact[k]


def _key(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[object, ...]:
    key: list[object] = []
    for size in shape:
        kind = draw(st.sampled_from(["all", "slice", "index", "reverse"]))
        if kind == "index":
            key.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice" and size > 1:
            start = draw(st.integers(0, size - 2))
            key.append(slice(start, draw(st.integers(start + 1, size)), draw(st.sampled_from([1, 2]))))
        else:
            key.append(slice(None, None, -1) if kind == "reverse" else slice(None))
    return tuple(key)


def _slice(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    if 0 in state.values[k].shape:
        return None
    key = _key(draw, state.values[k].shape)
    return f"v{k}[{key}]", lambda v: v.append(v[k][key]), state.exact[k]


def _join(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    if not state.values[k].ndim:
        return None
    axis = draw(st.integers(0, state.values[k].ndim - 1))
    return f"concatenate v{k} v{k} {axis}", lambda v: v.append(np.concatenate([v[k], v[k]], axis)), state.exact[k]


def _roll(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    shift = draw(st.integers(-4, 4))
    return f"roll v{k} {shift}", lambda v: v.append(np.roll(v[k], shift)), state.exact[k]


def _cast(draw: st.DrawFn, state: _State) -> Made:
    k = _pick(draw, state)
    dtype = np.dtype(draw(st.sampled_from(["f4", "f8", "i8"])))
    x = state.values[k]
    if dtype.kind == "i" and not (state.exact[k] and np.isfinite(x).all() and (np.abs(x.astype("f8")) < 1 << 40).all()):
        return None
    return f"v{k}.astype({dtype})", lambda v: v.append(v[k].astype(dtype)), state.exact[k]


def _assign(draw: st.DrawFn, state: _State) -> Made:
    """Write into a copy or a view of an earlier value."""
    a, b = _pick(draw, state), _pick(draw, state)
    target, value = state.values[a], state.values[b]
    if not isinstance(target, np.ndarray) or not target.flags.writeable or not target.ndim or 0 in target.shape:
        return None
    key = _key(draw, target.shape)
    try:
        fits = np.broadcast_shapes(target[key].shape, value.shape) == target[key].shape
    except ValueError:
        fits = False
    if not fits or not np.can_cast(value.dtype, target.dtype, "same_kind") or not (state.exact[a] and state.exact[b]):
        return None
    if draw(st.booleans()) and target.dtype.kind != "b":

        def augmented(v: Values) -> None:
            v[a][key] += v[b]

        return f"v{a}[{key}] += v{b}", augmented, True

    def plain(v: Values) -> None:
        v[a][key] = v[b]

    return f"v{a}[{key}] = v{b}", plain, True


_MAKERS = (
    _unary, _binary, _binary, _scalar, _where, _reduce, _reduce, _cumsum, _reshape, _transpose, _slice, _join, _roll,
    _cast, _assign, _assign,
)  # fmt: skip
