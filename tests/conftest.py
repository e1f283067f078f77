"""What every test gets: a cache directory of its own and all internal checks switched on.

The environment is set before numstax is imported anywhere.  Random examples are the same in every run;
``--hypothesis-profile=thorough`` draws others each time, forty times as many in the tests of functions with loops.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import hypothesis
import pytest

_CACHE = tempfile.TemporaryDirectory(prefix="numstax-tests-")
os.environ["NUMSTAX_CACHE_DIR"] = _CACHE.name
os.environ.setdefault("NUMSTAX_CHECK", "2")

hypothesis.settings.register_profile("numstax", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=4000, print_blob=True)
hypothesis.settings.load_profile("numstax")


@pytest.fixture(scope="session", autouse=True)
def _remove_cache() -> Iterator[None]:
    yield
    _CACHE.cleanup()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--accept", action="store_true", help="write the golden files anew")
