"""Saved functions: equal after loading, in this process and another; damage is found."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import numstax
from numstax.errors import ArtifactError, SizeError
from numstax.exported import FORMAT
from numstax.runtime import artifact
from numstax.runtime.host import Host
from numstax.runtime.serial import from_json, to_json
from tests.support import normal, same

N = numstax.Dim("n", 1, 5000)
TABLE = normal((3, 4))[:, ::2]
HALF = normal((4,)).astype(ml_dtypes.bfloat16)


def scaled(x, s):
    y = np.tanh(x @ TABLE) * s
    return {"y": y, "parts": [y.sum(0), y.shape[0], None, 2.5], "first": (x[:1],)}


def sorted_rows(x):
    order = np.argsort(x[:, 0])
    total = np.sort(x, axis=0)[::-1].T
    return total, x[order], np.linalg.norm(x)


def written(x):
    x[1:] *= 2
    x[x > 3] = -1
    return x.mean(1), (x.astype(np.float16) * 2).sum(), x.astype(ml_dtypes.bfloat16)[:, :1] + HALF


def solved_again(x):
    """A loop with a library call in each iteration, and buffers that change places."""
    a, y = np.eye(3) * 2 + 0.1, x.T.copy()
    for _ in range(100):
        y = np.linalg.solve(a, y) + 1
        y[1:] = y[:-1] * 0.5
    return y


def diffused(x):
    x = x.copy()
    for _ in range(100):
        x[:, 1:-1] = x[:, 1:-1] + 0.1 * (x[:, 2:] + x[:, :-2] - 2 * x[:, 1:-1])
    return x


def between(x):
    """Numbers that are one object in this source, and two once they are read."""
    return np.interp(x[:, 0], [0.0, 1.0, 2.5], [1.0, 2.5, 0.0], left=2.5, right=2.5)


def as_kinds(x):
    y = np.sort((x * 100).astype(np.int64), axis=0)
    return np.sort(y.view(np.longlong) + np.longlong(1), axis=0), np.sort(x, axis=0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    made = numstax.export(scaled, (normal((64, 3)), 2.0), dynamic_shapes={"x": {0: N}})
    made.save(tmp_path / "scaled")
    return tmp_path / "scaled"


FUNCTIONS = [lambda x: scaled(x, 0.5), sorted_rows, written, solved_again, diffused, between, as_kinds]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_same_after_loading(function: Callable[..., object], tmp_path: Path) -> None:
    made = numstax.export(function, (normal((64, 3)),), dynamic_shapes={"x": {0: N}})
    made.save(tmp_path / "a")
    loaded = numstax.load(str(tmp_path / "a"))
    assert str(loaded) == str(made)
    assert repr(loaded) == repr(made)
    for size in (1, 64, 700):
        x = normal((size, 3), seed=size)
        ours, theirs = x.copy(), x.copy()
        got, want = loaded(ours), made(theirs)
        same(got, want)
        same(ours, theirs)
    loaded.save(tmp_path / "b")
    assert artifact.read(tmp_path / "b") == artifact.read(tmp_path / "a")


def test_equal_dtypes_are_one(tmp_path: Path) -> None:
    """An array may come with a dtype of its own, and what was found out about it is found again later."""
    other = copy.deepcopy(np.dtype("f4"))
    assert other is not np.dtype("f4")
    texts = []
    for k, dtype in enumerate((other, np.dtype("f4"))):
        made = numstax.export(lambda x: scaled(x, 0.75), (normal((64, 3)).view(dtype),), dynamic_shapes={"x": {0: N}})
        made.save(tmp_path / str(k))
        texts.append((tmp_path / str(k) / "wrapper.py").read_text())
    assert texts[0] == texts[1]
    numstax.load(tmp_path / "1").save(tmp_path / "again")
    assert (tmp_path / "again" / "wrapper.py").read_text() == texts[1]
    assert made(np.ones((2, 3), "f4"))["y"].dtype is np.dtype("f4")


def test_another_process_neither_traces_nor_compiles(saved: Path, tmp_path: Path) -> None:
    x = normal((10, 3), seed=5)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, numstax\n"
        "import numstax.trace.tracer as tracer\n"
        "def refuse(*args): raise AssertionError\n"
        "tracer.Recorder = refuse\n"
        "sys.modules['numba'] = None\n"
        "sys.modules['pickle'] = None\n"
        f"f = numstax.load({str(saved)!r})\n"
        f"y = f(np.load({str(tmp_path / 'x.npy')!r}), 3.0)\n"
        "assert y['parts'][1:] == [10, None, 2.5], y\n"
        "assert 'sympy' not in sys.modules\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, y['y'])\n"
    )
    environ = {"NUMSTAX_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environ)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), scaled(x, 3.0)["y"], rtol=1e-5)


def test_another_machine_compiles_from_the_sources(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    monkeypatch.setattr("numstax.exported.processor", lambda: ("another",))
    monkeypatch.setattr(Host, "adopt", lambda *args: compiled.append(args))
    loaded = numstax.load(saved)
    assert not compiled
    x = normal((10, 3))
    np.testing.assert_allclose(loaded(x, 3.0)["y"], scaled(x, 3.0)["y"], rtol=1e-5)


def test_what_the_directory_holds(saved: Path) -> None:
    names = {p.name for p in saved.iterdir()}
    assert {"SHA256SUMS", "artifact.json", "graph.txt", "plan.json", "wrapper.py"} < names
    assert {p.removesuffix(".py") for p in names if p.endswith(".py")} - {"wrapper"} == {
        p.removesuffix(".o") for p in names if p.endswith(".o")
    }
    assert (saved / "graph.txt").read_text().startswith("graph\nsymbol n ")
    assert json.loads((saved / "artifact.json").read_text())["format"] == FORMAT
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=saved).returncode == 0


def test_loaded_functions_check_their_inputs(saved: Path) -> None:
    loaded = numstax.load(saved)
    with pytest.raises(SizeError, match=r"x.shape\[0\] is 5001; the declared range is n = Dim\('n', min=1, max=5000\)"):
        loaded(np.ones((5001, 3), "f4"), 1.0)


# --- damage -----------------------------------------------------------------------------------------


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_every_damaged_file_is_found(saved: Path) -> None:
    for path in sorted(saved.iterdir()):
        before = path.read_bytes()
        flip(path)
        with pytest.raises(ArtifactError, match=r"damaged|incomplete"):
            numstax.load(saved)
        path.write_bytes(before[:-9])
        with pytest.raises(ArtifactError, match="damaged"):
            numstax.load(saved)
        path.unlink()
        with pytest.raises(ArtifactError, match=r"incomplete|holds no exported function"):
            numstax.load(saved)
        path.write_bytes(before)
    numstax.load(saved)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no exported function"):
        numstax.load(tmp_path / "nothing")


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("keep")
    made = numstax.export(lambda x: x + 1, (normal((4,)),))
    with pytest.raises(ArtifactError, match="holds other files"):
        made.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_saving_again_replaces(saved: Path) -> None:
    numstax.export(lambda x: x + 1, (normal((4,)),)).save(saved)
    same(numstax.load(saved)(np.zeros(4, "f4")), np.ones(4, "f4"))
    assert not list(saved.glob("input*"))


def test_an_interrupted_save_leaves_what_was_there(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, written = artifact.read(saved), []

    def stop(path: Path, content: bytes) -> None:
        written.append(path)
        if len(written) == 3:
            raise KeyboardInterrupt

    made = numstax.export(lambda x: x + 1, (normal((4,)),))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", stop)
        with pytest.raises(KeyboardInterrupt):
            made.save(saved)
    assert len(written) == 3
    assert artifact.read(saved) == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_files_beside_a_saved_function_stay(saved: Path) -> None:
    (saved / "notes.txt").write_text("keep")
    numstax.export(lambda x: x + 1, (normal((4,)),)).save(saved)
    assert (saved / "notes.txt").read_text() == "keep"


def test_another_format(saved: Path, tmp_path: Path) -> None:
    files = artifact.read(saved)
    metadata = json.loads(files["artifact.json"])
    files["artifact.json"] = json.dumps({**metadata, "format": 99}).encode()
    artifact.write(tmp_path / "new", files)
    with pytest.raises(ArtifactError, match="has format 99"):
        numstax.load(tmp_path / "new")
    del metadata["interface"]
    artifact.write(tmp_path / "less", {**files, "artifact.json": json.dumps(metadata).encode()})
    with pytest.raises(ArtifactError, match="cannot be read: KeyError: 'interface'"):
        numstax.load(tmp_path / "less")


def test_a_result_without_a_name_cannot_be_saved(tmp_path: Path) -> None:
    class Local(dict):
        pass

    made = numstax.export(lambda x: Local(y=x + 1), (normal((4,)),))
    assert type(made(np.zeros(4, "f4"))) is Local
    with pytest.raises(ArtifactError, match=r"Local.* cannot be saved"):
        made.save(tmp_path / "local")
    assert not (tmp_path / "local").exists()


# --- values -----------------------------------------------------------------------------------------

VALUES = [
    *(None, True, 3, -1, "text", 2.5, float("inf"), -0.0, 1 + 2j, b"\x00\xff", ...),
    *((1, (2.0, "a")), [1, [2]], {"a": (1,), 2: None}, slice(1, None, -1)),
    *(np.dtype("f4"), np.dtype(ml_dtypes.bfloat16), np.dtype(">i2"), np.float32(1.5), np.int8(-3), np.bool_(True)),
    *(np.add, np.linalg.inv, np.float64, tuple),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: getattr(value, "__name__", repr(value)))
def test_values_survive(value: object) -> None:
    back = from_json(json.loads(json.dumps(to_json(value))), {})
    assert type(back) is type(value)
    assert back == value
    assert repr(back) == repr(value)


@pytest.mark.parametrize("data", [{"$nothing": 1}, {"$": "Unknown"}, {"$name": ["numpy", "nothing"]}, {"$float": "x"}])
def test_unreadable_values(data: object) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        from_json(data, {})
