"""Random functions with loops, branches and jumps give what Python gives, and leave their arguments alike."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import numstax
from numstax.errors import TraceError
from tests.fuzz.control_programs import Writer, arguments, function

EXAMPLES = settings().max_examples
randoms = st.randoms(use_true_random=False)
quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


def check(random: Random, **options: object) -> None:
    text = Writer(random).text()
    f = function(text)
    make = arguments(random)
    theirs, ours, again = make(), make(), make()
    want = f(*theirs)
    try:
        got = numstax.jit(f, strict=True, **options)(*ours)
    except TraceError as error:
        # a variable that is Python's or NumPy's integer, as values decide, is refused: then the call runs as NumPy
        if "a Python int" not in str(error):
            raise
        ours = again
        with pytest.warns(numstax.NumstaxWarning, match="runs as plain NumPy"):
            got = numstax.jit(f, **options)(*ours)
    assert [int(v) for v in got] == [int(v) for v in want], text
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b, text)


@pytest.mark.parametrize("dynamic", [False, True])
@settings(max_examples=EXAMPLES // 4, suppress_health_check=quiet)
@given(randoms)
def test_captured(dynamic: bool, random: Random) -> None:
    check(random, backend="reference", dynamic=dynamic)


@settings(max_examples=EXAMPLES // 10, suppress_health_check=quiet)
@given(randoms)
def test_compiled(random: Random) -> None:
    check(random)
