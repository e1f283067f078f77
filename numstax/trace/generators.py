"""Random numbers: what stands for a ``numpy.random.Generator`` while a function is traced.

Every draw is an extern node, so each call of the compiled function draws anew.  Draws keep their order and are
neither merged nor dropped, because each takes what the one before it leaves: for a generator that the caller owns
a number that counts the draws of all such generators, for one seeded inside the function the state itself.  What
is left in the end is a hidden output.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax.errors import UnsupportedOperationError
from numstax.trace import draws, extern
from numstax.trace.array import Storage, TracedArray
from numstax.trace.classes import StandIn
from numstax.trace.distributions import computed
from numstax.trace.extern_shapes import drawn_shapes
from numstax.trace.origin import user_origin
from numstax.trace.ufuncs import deliver

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_REFUSED = {
    "bit_generator": "is an object that compiled code cannot hold",
    "bytes": "gives bytes, not an array",
    "spawn": "gives generators, not arrays",
}


class TracedGenerator:
    """`state` : memory that every draw reads and writes.  `form` : how programs may draw (see `draws.form`).
    `ticket` : the scalar that leads to the caller's generator; None: the state is all there is."""

    def __init__(self, recorder: Recorder, state: Storage, form: str, ticket: TracedArray | None = None) -> None:
        self._recorder, self._state, self._form, self._ticket = recorder, state, form, ticket

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return np.random.Generator

    def __getattr__(self, name: str) -> Any:
        method = getattr(np.random.Generator, name, None)
        if name.startswith("_") or method is None:
            raise AttributeError(f"'Generator' object has no attribute '{name}'")
        if name in _REFUSED:
            raise UnsupportedOperationError(
                f"Generator.{name} {_REFUSED[name]}", user_origin(), "use it outside the compiled function"
            )
        return lambda *args, **kwargs: self._draw(name, args, kwargs)

    def _draw(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        words = inspect.signature(getattr(np.random.Generator, method)).bind(self, *args, **kwargs).arguments
        # NumPy asks whether a dtype is Python's int or bool itself
        words = {k: v.original if type(v) is StandIn else v for k, v in words.items()}
        out = words.pop("out", None)
        if out is not None and method != "permuted":
            words["size"] = out.shape
        del words["self"]
        sample = computed(self._recorder, method, words, self._sample) if self._form else None
        return deliver(self._recorder, self._sample(method, words) if sample is None else sample, out)

    def _sample(self, method: str, words: dict[str, Any]) -> Any:
        rec = self._recorder
        before = TracedArray(rec, self._state, self._state.node, None, is_scalar=not self._state.node.shape)
        given = () if self._ticket is None else (self._ticket,)
        function = draws.draw_seeded if self._ticket is None else draws.draw
        shapes = drawn_shapes(words.get("size"))
        sample, after = extern.call(rec, function, (*given, before, method, self._form), words, shapes=shapes)
        rec.write(self._state, after.node)
        return sample

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """In place: the permutation that ``shuffle`` makes of a copy."""
        if not isinstance(x, TracedArray):
            raise UnsupportedOperationError(
                f"Generator.shuffle of a {type(x).__name__} cannot be compiled", user_origin(), "shuffle an array"
            )
        x.store(self._sample("shuffle", {"x": x, "axis": axis}).node)


def caller_generator(rec: Recorder, generator: np.random.Generator, name: str) -> TracedGenerator:
    """The handle of a generator that exists outside: the compiled code takes a `draws.Ticket` for it."""
    ticket = rec.input(np.int64(rec.rehearse(generator)), name)
    return TracedGenerator(rec, rec.turn, draws.form(generator), ticket)


def seeded_generator(rec: Recorder, seed: Any) -> TracedGenerator:
    """``numpy.random.default_rng(seed)`` inside the function."""
    if isinstance(seed, TracedGenerator):
        return seed
    if seed is None:
        raise UnsupportedOperationError(
            "numpy.random.default_rng() without a seed gives other numbers in each call", user_origin(),
            "pass a numpy.random.Generator as an argument and draw from it",
        )  # fmt: skip
    state = extern.call(rec, draws.seeded, (seed,), {})
    return TracedGenerator(rec, rec.storage(state.node), "pcg64" if draws.is_as_known("PCG64") else "")
