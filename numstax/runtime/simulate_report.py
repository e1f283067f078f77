"""What a simulated run did: violations, and how each access of the text uses memory.

Violations are of the kinds in `KINDS`.  An access site is an access at one place of the text; a `Site` counts, over
the warps that ran it, the 32-byte sectors of global memory it touched and how many of their bytes it wanted, or the
passes that its bank conflicts in shared memory cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from numstax.errors import SimulationError
from numstax.records import record

SECTOR, BANKS, WORD = 32, 32, 4
"""Bytes of a sector of global memory; shared memory's banks, and bytes of a word of one."""
SAMPLES = 16
"""Executions of a site that are counted, of the first blocks: its later ones look alike."""

KINDS = {
    "bounds": "an access outside of its memory",
    "uninitialised": "a read of memory that nothing was written to",
    "alignment": "an access of more than 16 bytes, or at an address that is not a multiple of its size",
    "race": "two threads touch the same memory, one of them writes, and nothing orders them",
    "divergence": "an instruction for all threads of a warp or block that some do not reach",
    "conversion": "a float that the integer type cannot hold",
    "undefined": "a variable that no path to here assigned",
    "counters": "counters that are not zero at the end",
    "launch": "a block, grid or shared memory larger than the machine has",
    "alias": "two parameters that share memory, one of which is written",
    "endless": "a loop that does not end",
    "deadlock": "all warps wait for what does not come",
    "barrier": "a barrier that is used otherwise than it was made",
    "flight": "registers or memory in use while tensor cores or copies work on them",
    "layout": "a tile that is read otherwise than it was laid out",
}


@record
class Violation:
    """kind : one of `KINDS`; line, text : where in the program; detail : which element, which threads."""

    kind: str
    line: int
    text: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}\n  line {self.line}: {self.text}"


@dataclass
class Site:
    """One access in the text: `space` is 'global' or 'shared', `action` 'load', 'store' or 'atomic'."""

    line: int
    space: str
    action: str
    sampled: int = 0
    requests: int = 0
    wanted: int = 0
    sectors: int = 0
    passes: int = 0

    @property
    def sector_use(self) -> float:
        """The share of the bytes of the touched sectors that was wanted."""
        return self.wanted / (SECTOR * self.sectors) if self.sectors else 1.0

    @property
    def conflicts(self) -> int:
        """Passes through shared memory more than without bank conflicts."""
        return self.passes - self.requests if self.passes else 0

    def count_sectors(self, addresses: np.ndarray, active: np.ndarray, size: int) -> None:
        """Addresses of `size` bytes each: (warps, lanes)."""
        per_row = np.where(active, addresses, -1)
        per_row.sort(axis=-1)
        rows = active.any(-1)
        self.requests += int(np.count_nonzero(rows))
        self.wanted += size * _distinct(per_row)
        self.sectors += _distinct(per_row // SECTOR) * max(1, size // SECTOR)

    def count_passes(self, addresses: np.ndarray, active: np.ndarray, size: int) -> None:
        """A pass serves each bank once: all lanes, or so many as want 128 bytes together."""
        lanes = min(32, BANKS * WORD // max(size, WORD))
        addresses, active = addresses.reshape(-1, lanes), active.reshape(-1, lanes)
        words = addresses[:, :, None] // WORD + np.arange(max(1, size // WORD))
        words = np.where(active[:, :, None], words, -1).reshape(len(words), -1)
        words.sort(axis=-1)
        first = np.ones(words.shape, bool)
        first[:, 1:] = words[:, 1:] != words[:, :-1]
        first &= words >= 0
        row = np.nonzero(first)[0]
        in_bank = np.bincount(row * BANKS + words[first] % BANKS, minlength=len(words) * BANKS)
        self.passes += int(in_bank.reshape(-1, BANKS).max(-1).sum())
        self.requests += int(np.count_nonzero(active.any(-1)))


def _distinct(ordered: np.ndarray) -> int:
    """Different numbers that are not negative, in each sorted row."""
    new = ordered[:, 1:] != ordered[:, :-1]
    return int(np.count_nonzero(new & (ordered[:, 1:] >= 0)) + np.count_nonzero(ordered[:, 0] >= 0))


@dataclass
class Report:
    """violations : the first of each kind at each line; sites : by line, space and action.  `lines` : the text."""

    lines: tuple[str, ...]
    violations: list[Violation] = field(default_factory=list)
    sites: dict[tuple[int, str, str], Site] = field(default_factory=dict)

    def add(self, kind: str, line: int, detail: str) -> None:
        if not any((v.kind, v.line) == (kind, line) for v in self.violations):
            text = self.lines[line - 1].strip() if line else ""
            self.violations.append(Violation(kind, line, text, detail))

    def site(self, line: int, space: str, action: str) -> Site:
        key = line, space, action
        if key not in self.sites:
            self.sites[key] = Site(*key)
        return self.sites[key]

    def of(self, kind: str) -> list[Violation]:
        return [v for v in self.violations if v.kind == kind]

    def sector_use(self) -> float:
        """Over all accesses to global memory."""
        return _share(site for site in self.sites.values() if site.space == "global")

    def raise_violations(self, name: str) -> None:
        """Raises SimulationError, which lists them."""
        if self.violations:
            raise SimulationError(f"{name}: " + "\n".join(map(str, self.violations)))


def _share(sites: Iterable[Site]) -> float:
    counted = list(sites)
    sectors = sum(site.sectors for site in counted)
    return sum(site.wanted for site in counted) / (SECTOR * sectors) if sectors else 1.0
