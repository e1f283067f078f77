"""The benchmarks run, and their judgement is right."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from bench import timing


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
