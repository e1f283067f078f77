"""The command line."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import numpy as np
import pytest

from numstax import cli


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    cli.main(argv)
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        cli.main(argv)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(
        "import numpy as np\n"
        "def scaled_sum(x, w):\n"
        "    return (np.maximum(x + w, 0) * 2).sum(-1)\n"
        "def broken(x):\n"
        "    return x + np.ones(99)\n"
    )
    return path


def test_info_lists_versions_and_threads(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "info")
    assert np.__version__ in out
    assert "threads" in out
    assert "NUMSTAX_CACHE_DIR" in out


def test_explain_names_the_kernel(capsys: pytest.CaptureFixture[str], program: Path) -> None:
    out = run(capsys, "explain", f"{program}:scaled_sum", "float32[64,128]", "float32[128]")
    assert "maximum" in out


def test_inspect_shows_source(capsys: pytest.CaptureFixture[str], program: Path) -> None:
    assert "def " in run(capsys, "explain", "--inspect", f"{program}:scaled_sum", "float32[64,128]", "float32[128]")


def test_tune_measures_and_draws(
    capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time, the answer is known."""
    picture = tmp_path / "search.png"
    monkeypatch.setenv("NUMSTAX_CACHE_DIR", str(tmp_path))
    arguments = ("tune", f"{program}:scaled_sum", "float32[64,48]", "float32[48]", "--method", "default")
    assert "3 of 4 measured" in run(capsys, *arguments)
    assert "known from before" in run(capsys, *arguments, "--plot", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    said = run(capsys, "tune", f"{program}:scaled_sum", "float32[64,128]", "float32[128]")
    assert "no kernel" in said
    assert "reduces along the first axis" in said
    assert "--method" in refused(capsys, *arguments, "--method", "guess")


def test_explain_draws(capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path) -> None:
    picture = tmp_path / "fused.png"
    run(capsys, "explain", f"{program}:scaled_sum", "float32[64,128]", "float32[128]", "--plot", str(picture))
    assert picture.stat().st_size > 1000
    err = refused(capsys, "explain", f"{program}:scaled_sum", "float32[64,128]", "float32[128]", "--plot", "no/dir.png")
    assert "cannot draw no/dir.png" in err


def test_cache_show_and_clear(
    capsys: pytest.CaptureFixture[str], program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMSTAX_CACHE_DIR", str(tmp_path / "cache"))
    assert "0 kernels" in run(capsys, "cache", "show")
    assert "removed 0" in run(capsys, "cache", "clear")
    (tmp_path / "cache").mkdir(exist_ok=True)
    for k in range(25):
        (tmp_path / "cache" / f"kernel{k}-{k:032x}.o").write_bytes(b"0" * (k + 1))
    total, *largest, rest = run(capsys, "cache", "show").splitlines()
    assert total.startswith("25 kernels, 325 bytes")
    assert len(largest) == cli.LARGEST
    assert "kernel24-" in largest[0]
    assert rest.startswith("and 5 smaller")
    assert len(run(capsys, "cache", "show", "--all").splitlines()) == 26
    assert "removed 25" in run(capsys, "cache", "clear")


@pytest.mark.parametrize(("command", "words"), [("cache", ["show: ", "clear: "]), ("tune", ["random: ", "first axis"])])
def test_help_describes_the_choices(capsys: pytest.CaptureFixture[str], command: str, words: list[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    ("target", "arguments", "words"),
    [
        ("nofile.py:f", [], "cannot load nofile.py"),
        ("just_a_name", [], "MODULE:FUNCTION"),
        ("{program}:absent", [], "has no function absent"),
        ("{program}:scaled_sum", ["float99[3]"], "float99"),
        ("{program}:scaled_sum", ["x y"], "no Python literal"),
        ("{program}:broken", ["float32[3]"], "could not be broadcast"),
    ],
)
def test_mistakes_end_with_one_line(
    capsys: pytest.CaptureFixture[str], program: Path, target: str, arguments: list[str], words: str
) -> None:
    err = refused(capsys, "explain", target.format(program=program), *arguments)
    assert words in err
    assert "Traceback" not in err


def test_arguments_are_made_as_written() -> None:
    made = cli.make_argument("int32[2, 3]")
    assert isinstance(made, np.ndarray)
    assert (made.dtype, made.shape) == (np.dtype("int32"), (2, 3))
    assert cli.make_argument("float64[]").shape == ()  # type: ignore[attr-defined]
    assert cli.make_argument("(1, 'a')") == (1, "a")


def test_bench_passes_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        started.append(command[2:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", note)
    for words in (["--plot", "b.png"], ["op", "--help"], []):
        with pytest.raises(SystemExit, match="0"):
            cli.main(["bench", *words])
    assert started == [["bench.fused", "--plot", "b.png"], ["bench.op", "--help"], ["bench.fused"]]


def test_bench_names_the_benchmarks(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "compile_time" in run(capsys, "bench", "--help")
    assert "there is no benchmark 'nope'" in refused(capsys, "bench", "nope")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "'.[bench,cuda]'" in refused(capsys, "bench", "--device", "cuda")
