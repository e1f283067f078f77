"""Short programs of many fields, as users write them, against NumPy: two dtypes, odd memory layouts."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType

import numpy as np
import pytest

import numstax
from tests.semantics.snippets import finance, images, learning, physics
from tests.support import copy

PROGRAMS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": member
    for module in (images, finance, learning, physics)
    for name, member in vars(module).items()
    if isinstance(member, FunctionType) and member.__module__ == module.__name__
}


def _gaps(a: np.ndarray) -> np.ndarray:
    wide = np.zeros(tuple(2 * n for n in a.shape), a.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in a.shape)]
    view[...] = a
    return view


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "F": np.asfortranarray,
    "reversed": lambda a: a[::-1].copy()[::-1],
    "gaps": _gaps,
}


def arguments(dtype: str, layout: Callable[[np.ndarray], np.ndarray]) -> dict[str, object]:
    """What parameters of these names stand for."""
    rng = np.random.default_rng(17)
    arrays = {
        "x": rng.normal(size=(6, 8)), "y": rng.uniform(0.1, 1, (6, 8)), "s": rng.normal(size=(6, 6)),
        "v": rng.normal(size=12), "w": rng.uniform(0.5, 2, 12), "rgb": rng.uniform(size=(5, 6, 3)),
    }  # fmt: skip
    given: dict[str, object] = {k: layout(a.astype(dtype)) for k, a in arrays.items()}
    given |= {"k": layout(rng.integers(0, 6, 12)), "m": layout(rng.random((6, 8)) < 0.4), "f": 0.75}
    return given


def close(got: object, want: object, tolerance: float, where: str = "result") -> None:
    assert isinstance(want, np.ndarray) == isinstance(got, np.ndarray), where
    if isinstance(want, dict):
        assert list(got) == list(want)  # type: ignore[call-overload]
        got, want = list(got.values()), list(want.values())  # type: ignore[attr-defined]
    if isinstance(want, tuple | list):
        assert type(got) is type(want), where
        for k, (g, w) in enumerate(zip(got, want, strict=True)):  # type: ignore[call-overload]
            close(g, w, tolerance, f"{where}[{k}]")
        return
    g, w = np.asarray(got), np.asarray(want)
    assert (type(got), g.dtype, g.shape) == (type(want), w.dtype, w.shape), where
    if w.dtype.kind in "fc":
        scale = np.abs(w[np.isfinite(w)]).max(initial=0)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale, err_msg=where)
    else:
        np.testing.assert_array_equal(g, w, err_msg=where)


VARIANTS = [
    (name, variant)
    for k, name in enumerate(PROGRAMS)
    for variant in (("f8-C", "f4-gaps"), ("f4-F", "f8-reversed"))[k % 2]
]


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_snippet(name: str, variant: str) -> None:
    program = PROGRAMS[name]
    dtype, _, layout = variant.partition("-")
    given = arguments(dtype, LAYOUTS.get(layout, np.ascontiguousarray))
    parameters = inspect.signature(program).parameters.values()
    values = [given[p.name] for p in parameters if p.default is inspect.Parameter.empty]
    ours, theirs = ([copy(v) for v in values] for _ in range(2))
    tolerance = 2e-4 if dtype == "f4" else 1e-9
    close(numstax.jit(program, strict=True)(*ours), program(*theirs), tolerance)
    close(ours, theirs, tolerance, "arguments afterwards")
