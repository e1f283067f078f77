"""What the README and the examples show works as shown; what the documents name exists."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme_example_runs_when_pasted(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    program = tmp_path / "pasted.py"
    program.write_text(code[1])
    lines = run(str(program)).splitlines()
    assert abs(float(lines[0]) - 4096) < 1e-2
    assert any(line.startswith("def ") for line in lines)  # the printed source


@pytest.mark.parametrize("document", ["README.md", "docs/architecture.md", "docs/loops.md", "docs/dynamic.md"])
def test_named_files_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", text)) | set(re.findall(r"\]\(([\w/.]+)\)", text))
    bases = ROOT, ROOT / "numstax", (ROOT / document).parent
    missing = [n for n in named if not any((base / n).exists() for base in bases)]
    assert not missing


def test_named_settings_exist() -> None:
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "architecture.md").read_text()
    known = run("-c", "from numstax import knobs; print(knobs.describe())")
    for setting in set(re.findall(r"NUMSTAX_[A-Z_]+", text)):
        assert setting in known


def test_all_dependencies_are_explained() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    texts = [config["options"]["install_requires"], *config["options.extras_require"].values()]
    packages = {re.split(r"[\[<>=]", line)[0] for text in texts for line in text.split()}
    rows = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)
    assert packages == {name for row in rows for name in row.split(", ")} - {"package", "---"}
