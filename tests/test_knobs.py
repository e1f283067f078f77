from __future__ import annotations

from pathlib import Path

import pytest

from numstax import knobs
from numstax.errors import KnobError


def test_values_are_typed() -> None:
    got = knobs.from_environ(
        {
            "NUMSTAX_LOG": "passes, source",
            "NUMSTAX_CACHE_DIR": "/tmp/here",
            "NUMSTAX_CHECK": "2",
            "NUMSTAX_STRICT": "1",
            "HOME": "/root",
        }
    )
    assert got.log == {"passes", "source"}
    assert got.cache_dir == Path("/tmp/here")
    assert (got.check, got.strict, got.threads) == (2, True, 0)
    assert knobs.from_environ({"NUMSTAX_LOG": "all"}).log == set(knobs.LOG_TOPICS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CHECK", "3"),
        ("CHECK", "yes"),
        ("STRICT", "true"),
        ("THREADS", "-1"),
        ("LOG", "everything"),
        ("BACKEND", "gpu"),
        ("CACHE_DIR", ""),
    ],
)
def test_bad_value_names_variable_and_allowed_values(name: str, value: str) -> None:
    with pytest.raises(KnobError, match=f"NUMSTAX_{name}={value!r} is not ") as caught:
        knobs.from_environ({f"NUMSTAX_{name}": value})
    assert f"NUMSTAX_{name} sets: " in caught.value.remedy


def test_misspelt_variable_gets_a_suggestion() -> None:
    with pytest.raises(KnobError, match="did you mean NUMSTAX_THREADS"):
        knobs.from_environ({"NUMSTAX_THREAD": "2"})


def test_code_key_holds_only_what_changes_code() -> None:
    base = knobs.Knobs()
    assert base.code_key() == knobs.from_environ({"NUMSTAX_THREADS": "7", "NUMSTAX_CHECK": "1"}).code_key()
    assert base.code_key() != knobs.from_environ({"NUMSTAX_BACKEND": "reference"}).code_key()


def test_at_most_a_dozen_and_all_described() -> None:
    lines = knobs.describe().splitlines()
    assert len(lines) <= 12
    assert all(line.startswith("NUMSTAX_") and "  " in line for line in lines)
