"""What the documents say is so: the README's example, the examples, the files and packages that are named."""

from __future__ import annotations

import configparser
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_example_of_the_readme(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "pasted.py"
    path.write_text(code)
    runpy.run_path(str(path))
    total, _, inspected = capsys.readouterr().out.partition("\n")
    assert float(total) == pytest.approx(4096, rel=1e-5)
    assert inspected.count("\nkernel ") == 1


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(capsys: pytest.CaptureFixture[str], path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out


def test_named_files_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for name in set(re.findall(r"[\w/*]+\.py\b", text)):
        assert any([*ROOT.glob(name), *(ROOT / "numstax").glob(name)]), name
    for name in set(re.findall(r"`(\w[\w/]*/)`|\b(\w+/)(?= )", text)):
        folder = name[0] or name[1]
        assert any((base / folder).is_dir() for base in (ROOT, ROOT / "numstax")), folder


def test_all_dependencies_are_explained() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    packages = {re.split(r"[\[<>=]", line)[0] for text in texts for line in text.split()}
    explained = {
        name
        for row in re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
        for name in row.split(", ")
    }
    assert packages == explained - {"package", "---"}
