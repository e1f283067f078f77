"""Every example, compiled, gives the answer of plain NumPy and leaves the same in its arguments; its command runs."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import examples
import numstax
from examples import show

NAMES = sorted(m.name for m in pkgutil.iter_modules(examples.__path__) if m.name != "show")


def module(name: str) -> ModuleType:
    return importlib.import_module(f"examples.{name}")


def assert_same(got: Any, want: Any) -> None:
    if isinstance(want, dict):
        assert got.keys() == want.keys()
        got, want = tuple(got.values()), tuple(want.values())
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w)
    elif isinstance(want, np.random.Generator):
        assert got.bit_generator.state == want.bit_generator.state
    else:
        assert np.asarray(got).dtype == np.asarray(want).dtype
        loose = np.asarray(want).dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=1e-4 if loose else 1e-9, atol=1e-5 if loose else 1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_compiled_equals_numpy(name: str) -> None:
    function, arguments = module(name).example("small")
    plainly, compiled = copy.deepcopy(arguments), copy.deepcopy(arguments)
    want = function.__wrapped__(*plainly)
    got = numstax.jit(function.__wrapped__, strict=True)(*compiled)
    assert_same(got, want)
    assert_same(compiled, plainly)


@pytest.mark.parametrize("name", NAMES)
def test_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    example = module(name)
    arguments = ["--size", "small"]
    if hasattr(example, "draw"):
        arguments += ["--picture", str(tmp_path / "picture.png")]
    monkeypatch.setattr("sys.argv", [name, *arguments])
    example.main()
    found, times = capsys.readouterr().out.splitlines()
    assert any(letter.isdigit() for letter in found)
    assert "numstax" in times
    if hasattr(example, "draw"):
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_every_example_is_listed_and_explained() -> None:
    listed = (Path(examples.__file__).parent / "README.md").read_text()
    for name in NAMES:
        assert f"`{name}.py`" in listed
        text = module(name).__doc__ or ""
        assert f"python -m examples.{name}" in text
        assert ("Method: " in text) or ("Source: " in text)


def test_pictures_need_matplotlib(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["heat", "--picture", "heat.png"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        show.run(module("heat").example, found=str, draw=lambda figure, arguments, result: None)
    assert capsys.readouterr().err.splitlines()[-1].endswith("--picture needs matplotlib: pip install matplotlib")
