"""The benchmarks run, and their judgement is right."""

from __future__ import annotations

import importlib
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from bench import fused, timing


def test_quick_table_has_a_line_for_each_row() -> None:
    command = [sys.executable, "-m", "bench.fused", "--only", "small_chain", "relu_sum", "--peers", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "geometric means over 2 rows" in done.stdout
    assert "fails" not in done.stdout


def test_relative_error_looks_at_every_output() -> None:
    a, b = np.ones(4), np.full(4, 2.0)
    assert timing.relative_error((a, b), (a, b)) == 0
    assert timing.relative_error((a, b), (a, a)) == 1


def test_medians_call_everything() -> None:
    calls: list[str] = []
    times = timing.medians({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 3, 1e-4, patience=1)
    assert set(calls) == {"a", "b"} == set(times)


def test_a_product_that_is_wrong_or_fails_ends_in_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    gemm = importlib.import_module("bench.gemm")
    right = {"error": 1e-3, "theirs": 1e-3, "wrong": False, "flops": 1, "seconds": {"numstax": 1.0, "torch": 2.0}}
    found = {"right": {**right, "best": "torch", "ratio": 2.0}, "wrong": {**right, "best": "torch", "ratio": 9.0}}
    found["wrong"]["wrong"] = True
    rows = [SimpleNamespace(name=name) for name in ("right", "wrong", "failing")]
    with pytest.raises(SystemExit, match="2 rows failed or were wrong"):
        gemm.run(rows, lambda row: {"name": row.name, **found[row.name]})
    assert "geometric mean of 1 rows: 2.000" in capsys.readouterr().out
    gemm.run(rows[:1], lambda row: {"name": row.name, **found[row.name]})


@pytest.mark.parametrize(("names", "words"), [(["numpy"], False), (["numpy", "numexpr"], True)])
def test_other_peers_are_summed_up_where_there_are_some(
    names: list[str], words: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {name: {"seconds": 2.0} for name in names} | {timing.OURS: {"seconds": 1.0}}
    fused._summary([{"row": 1, "label": "a row", "runs": runs}], [timing.OURS, *names])
    out = capsys.readouterr().out
    assert "2.00 times NumPy" in out
    assert ("best peer measured" in out) is words
