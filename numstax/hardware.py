"""Hardware: one frozen row of facts for each machine we generate code for.

Nothing enters but the operating system's own tables; `host()` gives the row of this machine, `GPUS` and `CPUS` have
others by name, and `CDNA` is the one that the paper's numbers are of.  Every row checks itself when made, so tiles can
be derived from it without asking again.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from numstax.atoms import ATOMS, FORMATS, Atom
from numstax.records import record

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
STRIP = 1 << 14
"""Bytes of a row that are worth walking at a time where rows are combined: long enough to stream, and what is
kept for them stays near the core."""


@record
class Hardware:
    """Facts about one CPU.

    cores : hardware threads this process may run on.
    vector : bytes in one SIMD register.
    registers : SIMD registers.
    l1, l2 : bytes of data cache private to a core.
    l3 : bytes of the last cache, shared (equal to l2 where there is none).
    line : bytes in one cache line.
    """

    name: str
    cores: int
    vector: int
    registers: int
    l1: int
    l2: int
    l3: int
    line: int

    def __post_init__(self) -> None:
        facts = (self.cores, self.vector, self.registers, self.l1, self.l2, self.l3, self.line)
        if min(facts) <= 0:
            raise ValueError(f"hardware facts must be positive: {self}")
        if not self.line <= self.l1 <= self.l2 <= self.l3:
            raise ValueError(f"cache sizes must not shrink outwards: {self}")
        for power in (self.vector, self.line):
            if power & (power - 1):
                raise ValueError(f"vector and line sizes are powers of two: {self}")

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes in one SIMD register."""
        return max(self.vector // itemsize, 1)


@record
class Gpu:
    """Facts about one GPU.

    capability : compute capability; target : what programs are compiled for.
    sms : streaming multiprocessors.
    shared_block, shared_sm : bytes of shared memory one block may have, and that an SM has.
    registers_sm : 32-bit registers of an SM; threads_sm : threads resident on it.
    l2 : bytes of cache shared by all.
    bandwidth : bytes per second of its memory; clock : Hz.
    rates : of the matrix instructions it has: family, operand format, multiplications with addition that an SM makes in
        a clock cycle.
    registers_thread : one thread can have; threads_block : threads of a block, at most.
    line : bytes that are moved together; l2_rate, shared_rate : bytes an SM gets from either in a clock cycle.
    asynchronous : copies to shared memory pass by the registers, so a block may have several under way.
    """

    name: str
    capability: tuple[int, int]
    target: str
    sms: int
    shared_block: int
    shared_sm: int
    threads_sm: int
    l2: int
    bandwidth: float
    clock: float
    rates: tuple[tuple[str, str, int], ...] = ()
    registers_sm: int = 65536
    registers_thread: int = 255
    threads_block: int = 1024
    warp: int = 32
    line: int = 128
    l2_rate: int = 48
    shared_rate: int = 128
    asynchronous: bool = True

    def __post_init__(self) -> None:
        facts = (self.sms, self.shared_block, self.threads_sm, self.l2, self.bandwidth, self.clock, self.registers_sm)
        if min(*facts, self.registers_thread, self.line, self.l2_rate, *(rate for _, _, rate in self.rates), 1) <= 0:
            raise ValueError(f"Gpu facts must be positive: {self}")
        if self.shared_block > self.shared_sm or self.threads_sm % self.warp or self.threads_block > self.threads_sm:
            raise ValueError(f"Gpu facts contradict each other: {self}")
        if any(operand not in FORMATS for _, operand, _ in self.rates):
            raise ValueError(f"Gpu with an unknown operand format: {self}")

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The matrix instructions it has."""
        return tuple(atom for atom in ATOMS if (atom.family, atom.operand) in {rate[:2] for rate in self.rates})

    def rate(self, atom: Atom) -> int:
        """Multiplications with addition of an SM in a clock cycle.  Raises StopIteration where it lacks the atom."""
        return next(rate for family, operand, rate in self.rates if (family, operand) == (atom.family, atom.operand))

    @property
    def cluster(self) -> int:
        """Blocks that can share each other's memory."""
        return 8 if self.capability >= (9, 0) else 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row that stay on the chip: in the shared memory of a block and a quarter of the registers, or in a
        quarter of the registers of each block of a cluster."""
        return max(self.shared_block + self.registers_sm, self.registers_sm * self.cluster)

    @property
    def in_flight(self) -> int:
        """Bytes that an SM must have under way to saturate memory (Little's law, section 9.1)."""
        return int(self.bandwidth * LATENCY / self.sms)


LATENCY = 600e-9
"""Seconds that a load from global memory takes."""
_KIB, _MIB = 1 << 10, 1 << 20
_EIGHT_BITS = ("f8e4m3", "f8e5m2", "i8", "u8")


Rates = tuple[tuple[str, str, int], ...]


def _rates(family: str, half: int, tf32: int, eight: int, operands: tuple[str, ...] = _EIGHT_BITS) -> Rates:
    halves = ((family, "bf16", half), (family, "f16", half), (family, "tf32", tf32))
    return (*halves, *((family, operand, eight) for operand in operands))


_AMPERE = (
    *_rates("mma", 1024, 512, 2048, ("i8", "u8")),
    ("mma", "f64", 64),
    ("fma", "f32", 64),
    ("fma", "f64", 32),
)
# mma.sync keeps a Hopper's tensor cores about five eighths busy
_HOPPER = (
    *_rates("wgmma", 2048, 1024, 4096),
    *_rates("mma", 1280, 640, 2560),
    ("mma", "f64", 128),
    ("fma", "f32", 128),
    ("fma", "f64", 64),
)
_ADA = (*_rates("mma", 512, 256, 1024), ("fma", "f32", 128), ("fma", "f64", 2))
# consumer boards accumulate in float32 at half the speed
_ADA_GEFORCE = (
    *_rates("mma", 256, 128, 512, _EIGHT_BITS[:2]),
    *(("mma", operand, 1024) for operand in ("i8", "u8")),
    *_ADA[-2:],
)
# without tcgen05, for which there are no atoms; the speed of mma.sync is not published, that of an A100 is assumed
_BLACKWELL = (*_rates("mma", 1024, 512, 2048), ("fma", "f32", 128), ("fma", "f64", 64))
GPUS = {
    gpu.name: gpu
    for gpu in (
        Gpu(
            "A100", (8, 0), "sm_80", 108, 163 * _KIB, 164 * _KIB, 2048, 40 * _MIB, 2.039e12, 1.41e9, _AMPERE, l2_rate=40
        ),
        Gpu(
            "H100", (9, 0), "sm_90a", 132, 227 * _KIB, 228 * _KIB, 2048, 50 * _MIB, 3.35e12, 1.98e9, _HOPPER, l2_rate=60
        ),
        Gpu(
            "H200", (9, 0), "sm_90a", 132, 227 * _KIB, 228 * _KIB, 2048, 50 * _MIB, 4.8e12, 1.98e9, _HOPPER, l2_rate=60
        ),
        Gpu("L40S", (8, 9), "sm_89", 142, 99 * _KIB, 100 * _KIB, 1536, 96 * _MIB, 8.64e11, 2.52e9, _ADA, l2_rate=16),
        Gpu(
            "RTX 4090",
            (8, 9),
            "sm_89",
            128,
            99 * _KIB,
            100 * _KIB,
            1536,
            72 * _MIB,
            1.008e12,
            2.52e9,
            _ADA_GEFORCE,
            l2_rate=16,
        ),
        Gpu("B200", (10, 0), "sm_100", 148, 227 * _KIB, 228 * _KIB, 2048, 126 * _MIB, 8e12, 1.965e9, _BLACKWELL),
    )
}
"""By name, as in the makers' data sheets."""
CDNA = Gpu(
    "CDNA", (9, 8), "gfx908", 120, 64 * _KIB, 64 * _KIB, 2560, 8 * _MIB, 1.2e12, 1.502e9,
    rates=(("mfma", "f32", 64), ("fma", "f32", 32)),
    registers_thread=256,
    warp=64,
    l2_rate=16,
    asynchronous=False,
)  # fmt: skip
"""The paper's target (section 3): 64 KB of shared memory, 256 registers a thread, 64 threads a wavefront, 120 units,
23.1 TFLOP/s by mfma and 11.5 without, 1.2 TB/s.  Not stated there, and taken from the maker: clock, resident threads,
L2, lines of 128 bytes.  No program is generated for it; the tests derive the paper's tiles from this row."""
CPUS = {
    cpu.name: cpu
    for cpu in (
        Hardware("Xeon Platinum 8480+", 56, 64, 32, 48 * _KIB, 2 * _MIB, 105 * _MIB, 64),
        Hardware("EPYC 9654", 96, 64, 32, 32 * _KIB, 1 * _MIB, 384 * _MIB, 64),
        Hardware("EPYC 7763", 64, 32, 16, 32 * _KIB, 512 * _KIB, 256 * _MIB, 64),
        Hardware("Graviton3", 64, 32, 32, 64 * _KIB, 1 * _MIB, 32 * _MIB, 64),
    )
}
"""Processors by name, cores without hardware threads; `host()` is the row of the one that runs this."""


def rates_of(capability: tuple[int, int]) -> Rates:
    """The matrix instructions of a GPU with this compute capability: those of the newest row that is not newer."""
    rows = [gpu for gpu in GPUS.values() if gpu.capability <= capability]
    return max(rows, key=lambda gpu: gpu.capability).rates if rows else ()


@cache
def host() -> Hardware:
    """This machine.  Facts that the system does not tell are those of a small x86-64 server core."""
    caches = _read_caches()
    l1 = caches.get(1, 32 << 10)
    l2 = max(caches.get(2, 512 << 10), l1)
    vector, registers = _simd(_cpu_flags(), platform.machine())
    return Hardware(
        name=platform.machine() or "unknown",
        cores=_usable_cores(),
        vector=vector,
        registers=registers,
        l1=l1,
        l2=l2,
        l3=max(caches.get(3, l2), l2),
        line=_read_line(),
    )


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read_caches() -> dict[int, int]:
    """Bytes of the data or unified cache of each level."""
    out: dict[int, int] = {}
    for entry in sorted(_CACHES.glob("index*")):
        try:
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            level, text = int((entry / "level").read_text()), (entry / "size").read_text().strip()
            out[level] = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)
        except (OSError, ValueError):
            continue
    return out


def _read_line() -> int:
    try:
        return int((_CACHES / "index0" / "coherency_line_size").read_text())
    except (OSError, ValueError):
        return 64


def _cpu_flags() -> frozenset[str]:
    try:
        lines = _CPUINFO.read_text().splitlines()
    except OSError:
        return frozenset()
    return next(
        (frozenset(x.partition(":")[2].split()) for x in lines if x.startswith(("flags", "Features"))), frozenset()
    )


def _simd(flags: frozenset[str], machine: str) -> tuple[int, int]:
    """Bytes and number of the SIMD registers."""
    if "avx512f" in flags:
        return 64, 32
    if "avx2" in flags:
        return 32, 16
    return (16, 32) if machine in ("aarch64", "arm64") else (16, 16)
