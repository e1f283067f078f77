"""`docs/coverage.md` is up to date, complete and true: every call in it runs, compared with NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxError
from tests.coverage.calls import SECTIONS, Call, arguments
from tests.coverage.report import DOCUMENT, is_for_this_numpy, outcome, render
from tests.support import same

CALLS = [call for calls in SECTIONS.values() for call in calls if call.exists]


@pytest.mark.parametrize("call", CALLS, ids=[call.text for call in CALLS])
@pytest.mark.filterwarnings("ignore")
def test_call_is_what_the_document_says(call: Call) -> None:
    given, expected = arguments(), arguments()
    function = call.function()
    compiled = numstax.jit(function, strict=True)
    with np.errstate(all="ignore"):
        if outcome(call).kind == "refused":
            with pytest.raises(NumstaxError) as caught:
                compiled(*(given[k] for k in call.letters))
            assert caught.value.remedy, caught.value
            return
        got = compiled(*(given[k] for k in call.letters))
        want = function(*(expected[k] for k in call.letters))
    same(got, want, ulps=256)
    arrays = [k for k in call.letters if k != "r"]
    same([given[k] for k in arrays], [expected[k] for k in arrays], ulps=256, where="arguments afterwards")
    if "r" in call.letters:
        assert given["r"].bit_generator.state == expected["r"].bit_generator.state


def test_document_is_up_to_date() -> None:
    if not is_for_this_numpy():
        pytest.skip("written for another version of NumPy")
    assert DOCUMENT.read_text() == render(), "run make coverage"


OWNERS = {"np.": np, "np.linalg.": np.linalg, "np.fft.": np.fft}


@pytest.mark.parametrize("prefix", OWNERS)
def test_every_public_function_is_listed(prefix: str) -> None:
    module = OWNERS[prefix]
    with warnings.catch_warnings(action="ignore"):
        public = {
            n for n in module.__all__ if callable(getattr(module, n)) and not isinstance(getattr(module, n), type)
        }
    assert public <= {call.name.removeprefix(prefix) for call in CALLS}


@pytest.mark.parametrize("kind", [np.ndarray, np.random.Generator])
def test_every_attribute_is_listed(kind: type) -> None:
    public = {f"{kind.__name__}.{n}" for n in dir(kind) if not n.startswith("_")}
    assert public <= {call.name for call in CALLS}
