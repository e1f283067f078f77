"""What docs/dynamic.md shows works as shown."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

import numstax

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "dynamic.md").read_text()


def test_the_first_example(tmp_path):
    program, *_ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    shown = re.search(r"```\n(numstax: compiling f again.*)\n```", TEXT)
    (tmp_path / "pasted.py").write_text(program)
    env = {"PYTHONPATH": str(ROOT), "NUMSTAX_CACHE_DIR": str(tmp_path / "cache"), "NUMSTAX_LOG": "recompiles"}
    command = [sys.executable, "-W", "error", "pasted.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2\n")
    assert shown
    assert done.stderr.splitlines() == [shown[1]]


def test_the_example_of_sizes_that_depend_on_data():
    program = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[1]
    scope = {"numstax": numstax}
    exec(compile(program.partition("\n")[2], "<document>", "exec"), scope)
    above = numstax.jit(scope["above"], strict=True, dynamic=True)
    for n in (5, 9, 40):
        x = np.random.default_rng(n).random(n)
        y, count = above(x)
        assert type(count) is int
        np.testing.assert_allclose(y, x[x > 0.5] - x[x > 0.5].mean())
    assert above.compile_count == 1
