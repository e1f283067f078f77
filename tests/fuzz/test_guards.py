"""Random programs at random sizes: NumPy, artifacts for each size, and artifacts for all sizes agree.

FUZZ_SECONDS sets how long the search for a wrong answer takes, FUZZ_SEED where it starts: unless it is set, always in
the same place, so that a failing check says something about the change.  `python -m tests.fuzz.dynamic_guards` starts
anywhere.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.fuzz.dynamic_guards import Program, check, hunt


@pytest.mark.parametrize("seed", range(32))
def test_static_dynamic_and_numpy_agree(seed: int) -> None:
    assert not check(Program(random.Random(seed)), 4, static=True)


def test_no_size_passes_the_guards_with_a_wrong_answer() -> None:
    seed = int(os.environ.get("FUZZ_SEED", "0"))
    count, wrong = hunt(seed, float(os.environ.get("FUZZ_SECONDS", "50")))
    assert count
    assert not wrong, "\n".join(wrong)
