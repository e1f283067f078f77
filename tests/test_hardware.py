from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from numstax import hardware
from numstax.hardware import GPUS, Hardware, host

ROW = Hardware("x86_64", cores=2, vector=32, registers=16, l1=32 << 10, l2=1 << 20, l3=32 << 20, line=64)


def test_host_counts_usable_cores() -> None:
    assert host().cores == len(os.sched_getaffinity(0))
    assert host() is host()


@pytest.mark.parametrize("change", [{"cores": 0}, {"vector": 48}, {"l2": 1 << 10}, {"line": 65}, {"l3": 1 << 19}])
def test_a_wrong_row_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Hardware"):
        replace(ROW, **change)


def test_lanes() -> None:
    assert [ROW.lanes(n) for n in (1, 4, 8, 16, 64)] == [32, 8, 4, 2, 1]


def test_caches_are_read_per_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("3", "Unified", "odd")]
    ):
        entry = tmp_path / f"index{k}"
        entry.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size), ("coherency_line_size", "128")):
            (entry / name).write_text(text + "\n")
    monkeypatch.setattr(hardware, "_CACHES", tmp_path)
    row = host.__wrapped__()
    assert (row.l1, row.l2, row.l3, row.line) == (48 << 10, 2 << 20, 2 << 20, 128)


def test_without_system_tables_there_is_still_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_CACHES", tmp_path / "none")
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "none")
    row = host.__wrapped__()
    assert row.line == 64
    assert row.vector == 16


def test_gpus_are_consistent() -> None:
    for name, gpu in GPUS.items():
        assert name == gpu.name
        assert gpu.target.rstrip("a") == "sm_{}{}".format(*gpu.capability)
    assert 15_000 < GPUS["H100"].in_flight < 16_000


@pytest.mark.parametrize("change", [{"sms": 0}, {"shared_block": 1 << 20}, {"threads_sm": 1000}])
def test_a_wrong_gpu_is_refused(change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Gpu"):
        replace(GPUS["H200"], **change)  # type: ignore[arg-type]
