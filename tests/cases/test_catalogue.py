"""The catalogue of bug reports: small programs, one for each way in which other compilers have gone wrong.

The catalogue lies beside the repository (``../shared/cases``); without it nothing here is collected.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "shared" / "cases"
LATER = frozenset({"attention", "autodiff", "export", "dynamic", "big-index"})
"""Areas that the compiler does not cover yet, and those that need gigabytes."""


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cases() -> list[str]:
    if not FOLDER.is_dir():
        return []
    sys.path.insert(0, str(FOLDER))  # the cases import their own helpers
    return [str(path) for path in sorted((FOLDER / "cases").glob("*.py")) if _load(path).AREA not in LATER]


CASES = _cases()


@pytest.mark.parametrize("path", CASES, ids=lambda path: Path(path).stem)
@pytest.mark.filterwarnings("ignore")
def test_case(path: str) -> None:
    _load(FOLDER / "run_cases.py").run_one(path, "numstax", {})
