"""cache and host: keys, damage, unusable directories, sharing, and that Numba stays out of warm starts."""

import dataclasses
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from numstax.dtypes import FLOAT32, FLOAT64
from numstax.errors import NumstaxWarning
from numstax.knobs import Knobs
from numstax.program import Intrinsic, Param, Program
from numstax.runtime.cache import DiskCache
from numstax.runtime.host import Host
from numstax.runtime.load import RETURN_SLOTS, ObjectCode
from numstax.runtime.memory import address_of

TEXT = "def k(x, out, n):\n    # x + x\n    for i in range(n):\n        out[i] = x[i] + x[i]\n"
PARAMS = (Param("x", "pointer", FLOAT32), Param("out", "pointer", FLOAT32), Param("n", "size"))
DOUBLE = Program("double", "cpu", TEXT, "k", PARAMS)


def run(host):
    """Results of DOUBLE, through its entry."""
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    host.entry(DOUBLE)(*RETURN_SLOTS, address_of(x), address_of(out), 5)
    return out.tolist()


def host(directory):
    return Host(Knobs(cache_dir=directory, threads=1))


WANT = [0, 2, 4, 6, 8]
ROW = ("param", "f32", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"text": TEXT.replace("+", "*")},
        {"params": (*PARAMS[:1], Param("out", "pointer", FLOAT64), *PARAMS[2:])},
        {"target": "other"},
        {"intrinsics": (Intrinsic("same_f32", ("f32",), "f32", (ROW,)),)},
    ],
)
def test_key_covers_what_the_code_depends_on(change):
    cache = DiskCache(None)
    assert cache.key(dataclasses.replace(DOUBLE, **change)) != cache.key(DOUBLE)


def test_key_leaves_out_comments_names_and_launch_hints():
    other = dataclasses.replace(DOUBLE, name="other", text=TEXT.replace("x + x", "changed"), grain="5", work="n")
    assert DiskCache(None).key(other) == DiskCache(None).key(DOUBLE)
    assert DiskCache(None, (("knob", 1),)).key(DOUBLE) != DiskCache(None).key(DOUBLE)


def test_second_host_reads_what_the_first_wrote(tmp_path):
    first, second = host(tmp_path), host(tmp_path)
    assert run(first) == WANT
    kept = second.entry(DOUBLE)
    assert run(second) == WANT
    assert second.entry(DOUBLE) is kept
    assert (first.counts.compiled, first.counts.read) == (1, 0)
    assert (second.counts.compiled, second.counts.read, second.counts.loaded) == (0, 1, 2)
    (entry,) = first.cache.entries()
    assert entry.name == "double"
    assert entry.nbytes > 500
    assert entry.path.with_suffix(".py").read_text() == TEXT
    assert first.cache.clear() == entry.nbytes
    assert list(tmp_path.iterdir()) == []


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-100],
    "flipped bit": lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
    "no header": lambda data: data.partition(b"\n")[2],
    "header of another kind": lambda data: b"[]\n" + data.partition(b"\n")[2],
    "header without fields": lambda data: b"{}\n" + data.partition(b"\n")[2],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damaged_entries_are_compiled_again(tmp_path, how):
    run(host(tmp_path))
    (path,) = tmp_path.glob("*.o")
    path.write_bytes(DAMAGE[how](path.read_bytes()))
    again, repaired = host(tmp_path), host(tmp_path)
    assert run(again) == WANT
    assert again.counts.compiled == 1
    assert run(repaired) == WANT
    assert repaired.counts.compiled == 0


def test_an_unusable_directory_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    unusable = host(tmp_path / "file" / "cache")
    with pytest.warns(NumstaxWarning, match="cannot be used"):
        assert run(unusable) == WANT
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other = dataclasses.replace(DOUBLE, text=TEXT.replace("+", "-"))
        unusable.entry(other)
        assert run(unusable) == WANT
    assert unusable.cache.entries() == []
    assert unusable.cache.clear() == 0


def test_an_entry_that_is_a_directory_is_survived(tmp_path):
    cache = DiskCache(tmp_path)
    (tmp_path / f"double-{cache.key(DOUBLE)}.o").mkdir()
    with pytest.warns(NumstaxWarning):
        code = cache.get(DOUBLE, cache.key(DOUBLE), lambda program: ObjectCode(b"code", program.name))
    assert code == ObjectCode(b"code", "double")


def test_without_a_directory_nothing_is_written(tmp_path):
    memory_only = Host(Knobs(cache=False, cache_dir=tmp_path))
    assert run(memory_only) == WANT
    assert list(tmp_path.iterdir()) == []


def test_threads_compile_once(tmp_path):
    shared, results = host(tmp_path), []
    threads = [threading.Thread(target=lambda: results.append(run(shared))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [WANT] * 4
    assert shared.counts.compiled == 1


def test_code_stays_mapped_while_its_entry_lives(tmp_path):
    shared = host(tmp_path)
    entry = shared.entry(DOUBLE)
    for k in range(5):
        shared.entry(dataclasses.replace(DOUBLE, text=TEXT.replace("x[i] + x[i]", f"x[i] + {k}")))
    x, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    entry(*RETURN_SLOTS, address_of(x), address_of(out), 3)
    assert out.tolist() == [2, 2, 2]


def test_a_warm_process_does_not_import_numba(tmp_path):
    run(host(tmp_path))
    root = Path(__file__).parents[2]
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path\n"
        "from tests.runtime import test_cache as t\n"
        "assert t.run(t.host(Path(sys.argv[2]))) == t.WANT\n"
        "assert 'numba' not in sys.modules\n"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("NUMSTAX")}
    subprocess.run([sys.executable, "-c", script, str(root), str(tmp_path)], check=True, env=environ, cwd=tmp_path)
