"""Mistakes put into printed programs, one at a time: each is reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench import workloads as w
from numstax.program import Emitted, Program
from numstax.runtime.simulate import run
from tests.simulate.running import launches
from tests.support import normal

WIDE = normal((3, 4096))
CASES = {
    "softmax": (w.softmax, (WIDE,)),
    "layernorm": (w.layernorm, (WIDE, WIDE[0], WIDE[1])),
    "full_argmax": (w.full_argmax, (normal((8000,)),)),
    "col_mean": (w.col_mean, (normal((300, 130)),)),
    "pointwise": (lambda x: x * 2 + 1, (WIDE,)),
    "small_chain": (w.small_chain, (normal((64, 64)),)),
}


def programs(name: str) -> Iterator[tuple[Program, list[Any]]]:
    """Each program of a case with the values of its arguments as they are when it runs."""
    function, args = CASES[name]
    for item, values in launches(function, args):
        assert isinstance(item, Emitted)
        yield item.program, [v.copy() if isinstance(v, np.ndarray) else v for v in values]


def kinds(program: Program, text: str, values: list[Any]) -> set[str]:
    assert text != program.text
    copies = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    return {v.kind for v in run(replace(program, text=text), copies, check=False).violations}


@pytest.mark.parametrize("name", [name for name in CASES if name != "pointwise"])
def test_every_barrier_is_needed(name: str) -> None:
    found = 0
    for program, values in programs(name):
        lines = program.text.splitlines()
        for k, line in enumerate(lines):
            if line.strip() == "barrier()":
                found += 1
                removed = [*lines[:k], line.replace("barrier()", "pass"), *lines[k + 1 :]]
                assert "race" in kinds(program, "\n".join(removed), values), f"{program.name}, line {k + 1}"
                apart = [*lines[:k], line.replace("barrier()", "if thread_x() != 7: barrier()"), *lines[k + 1 :]]
                assert "divergence" in kinds(program, "\n".join(apart), values), f"{program.name}, line {k + 1}"
    assert found


def test_accesses_that_are_off_by_one() -> None:
    ((program, values),) = programs("pointwise")
    load, store = "load4_f32(in0, ", "store4_f32(out0, "
    for before, after, kind in (
        (load, load + "1 + ", "alignment"),
        (load, load + "4 + ", "bounds"),
        (store, store + "4 + ", "bounds"),
        (store, store + "4 - ", "bounds"),
        (store, store + "0 * ", "race"),
    ):
        assert kind in kinds(program, program.text.replace(before, after), values)


def test_lanes_that_miss_a_shuffle() -> None:
    seen = 0
    for program, values in programs("softmax"):
        lines = program.text.splitlines()
        for k, line in enumerate(lines):
            if "shuffle" in line:
                seen += 1
                guarded = line.replace(line.strip(), f"if thread_x() != 3: {line.strip()}")
                assert "divergence" in kinds(program, "\n".join([*lines[:k], guarded, *lines[k + 1 :]]), values)
    assert seen
