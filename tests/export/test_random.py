"""Random programs, exported for ranges of sizes: every declared size gives NumPy's result or a named error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import numstax
from numstax.errors import ConstraintError, DataDependentError, NumstaxError, SizeError
from tests.fuzz.programs import Program, programs
from tests.support import copy

SIZES = (1, 2, 3, 4, 7, 19, 40)
Shapes = dict[str, dict[int, numstax.Dim]]


@st.composite
def declarations(draw: st.DrawFn, program: Program) -> Shapes:
    """Axes of equal size share a Dim, have one of their own, or are fixed."""
    shapes: Shapes = {}
    for k, array in enumerate(program.inputs):
        axes = {}
        for axis, size in enumerate(array.shape):
            name = draw(st.sampled_from([f"n{size}", f"n{size}", f"own_{k}_{axis}", ""]))
            if name:
                axes[axis] = numstax.Dim(name, draw(st.sampled_from([0, 1])), 40)
        shapes[f"inputs[{k}]"] = axes
    ranges = {}
    return {name: {k: ranges.setdefault(d.name, d) for k, d in axes.items()} for name, axes in shapes.items()}


def narrowed(error: ConstraintError, shapes: Shapes) -> Shapes:
    """The declarations with the suggested ranges."""
    fixes = str(error).partition("Suggested fixes:\n")[2].splitlines()
    made = {dim.name: dim for dim in (eval(fix.partition("=")[2], {"Dim": numstax.Dim}) for fix in fixes)}
    return {name: {k: made.get(d.name, d) for k, d in axes.items()} for name, axes in shapes.items()}


@st.composite
def calls(draw: st.DrawFn, program: Program, shapes: Shapes) -> list[np.ndarray]:
    sizes: dict[str, int] = {}
    arrays = []
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    for k, example in enumerate(program.inputs):
        shape = list(example.shape)
        for axis, dim in shapes[f"inputs[{k}]"].items():
            allowed = [n for n in (*SIZES, example.shape[axis], dim.min) if dim.admits(n)]
            shape[axis] = sizes.setdefault(dim.name, draw(st.sampled_from(allowed)))
        values = rng.integers(0 if example.dtype.kind in "ub" else -6, 7, shape)
        array = (values / 4 if example.dtype.kind == "f" else values).astype(example.dtype)
        arrays.append(np.asfortranarray(array) if draw(st.booleans()) else array)
    return arrays


def agree(got: object, want: object, where: str) -> None:
    g, w = np.asarray(got), np.asarray(want)
    assert (g.dtype, g.shape) == (w.dtype, w.shape), where
    tolerance = {2: 1e-2, 4: 1e-4, 8: 1e-10}[w.dtype.itemsize] if w.dtype.kind == "f" else 0
    np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=where)


def result_or_error(exported: numstax.Exported, arrays: list[np.ndarray]) -> object:
    try:
        return exported(*arrays)
    except NumstaxError as error:
        return error


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, about empty arrays
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    program = data.draw(programs())
    shapes = data.draw(declarations(program))
    given = [copy(a) for a in program.inputs]
    try:
        exported = numstax.export(program.run, given, dynamic_shapes=shapes)
    except ConstraintError as error:
        shapes = narrowed(error, shapes)
        exported = numstax.export(program.run, given, dynamic_shapes=shapes)
    except DataDependentError:
        event("refused")
        return
    for _ in range(4):
        arrays = data.draw(calls(program, shapes))
        theirs, ours = ([copy(a) for a in arrays] for _ in range(2))
        where = f"{[a.shape for a in arrays]} with {shapes} in\n{program!r}\n{exported}"
        try:
            with np.errstate(all="ignore"):
                want = program.run(*theirs)
        except (ValueError, IndexError):
            want = None
        got = result_or_error(exported, ours)
        if isinstance(got, NumstaxError):
            # only a relation that the declarations do not express may refuse what NumPy computes
            assert want is None or (isinstance(got, SizeError) and "was captured for" in str(got)), where
            event("refused by an assertion")
            continue
        assert want is not None, where
        event("compared")
        for k, (g, w) in enumerate(zip([*ours, *got], [*theirs, *want], strict=True)):
            agree(g, w, f"v{k} of {where}")
