"""What docs/export.md shows works as shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "export.md").read_text()


def test_the_example_runs_when_pasted(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert code
    (tmp_path / "pasted.py").write_text(code[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "pasted.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "NUMSTAX_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "assert 2 <= x.shape[0] <= 4096 : n" in lines
    assert lines[-1] == str("[" + "3.2 " * 9 + "3.2]")
    kinds = {re.sub(r"\d+", "<k>", p.name) if p.suffix == ".npy" else p.name for p in (tmp_path / "score").iterdir()}
    named = set(re.findall(r"`([\w.<>]+\.\w+|SHA256SUMS)`", TEXT))
    kernels = {name for name in kinds if name.endswith((".py", ".o")) and name != "wrapper.py"}
    assert kinds - kernels <= named
