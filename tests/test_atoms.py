"""Fragment maps against the formulas of the instruction sets' manuals, which name elements thread by thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from numstax.atoms import ATOMS, Atom, Fragment

Map = Callable[[int, int], tuple[int, int]]


def by_name(name: str) -> Atom:
    return next(atom for atom in ATOMS if atom.name == name)


def accumulator(lane: int, i: int) -> tuple[int, int]:
    """PTX ISA, m16n8: groupID + 8 for i >= 2, threadID_in_group * 2 + (i & 1)."""
    return lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2


def bits16_a(lane: int, i: int) -> tuple[int, int]:
    """PTX ISA, m16n8k16 with 16-bit elements: rows below for 2 <= i < 4 and i >= 6, columns beyond for i >= 4."""
    return lane // 4 + (8 if i in (2, 3, 6, 7) else 0), lane % 4 * 2 + i % 2 + (8 if i >= 4 else 0)


def bits8_a(lane: int, i: int) -> tuple[int, int]:
    """PTX ISA, m16n8k32 with 8-bit elements."""
    return lane // 4 + (8 if 4 <= i < 8 or i >= 12 else 0), lane % 4 * 4 + i % 4 + (16 if i >= 8 else 0)


MANUAL: dict[str, tuple[Map, Map, Map]] = {
    "mma m16n8k16 bf16": (bits16_a, lambda t, i: (t % 4 * 2 + i % 2 + (8 if i >= 2 else 0), t // 4), accumulator),
    "mma m16n8k8 f16": (
        lambda t, i: (t // 4 + (8 if i >= 2 else 0), t % 4 * 2 + i % 2),
        lambda t, i: (t % 4 * 2 + i, t // 4),
        accumulator,
    ),
    "mma m16n8k8 tf32": (
        lambda t, i: (t // 4 + (8 if i in (1, 3) else 0), t % 4 + (4 if i >= 2 else 0)),
        lambda t, i: (t % 4 + 4 * i, t // 4),
        accumulator,
    ),
    "mma m16n8k4 tf32": (
        lambda t, i: (t // 4 + 8 * i, t % 4),
        lambda t, i: (t % 4, t // 4),
        accumulator,
    ),
    "mma m16n8k32 f8e4m3": (bits8_a, lambda t, i: (t % 4 * 4 + i % 4 + (16 if i >= 4 else 0), t // 4), accumulator),
    "mma m16n8k16 i8": (
        lambda t, i: (t // 4 + (8 if i >= 4 else 0), t % 4 * 4 + i % 4),
        lambda t, i: (t % 4 * 4 + i, t // 4),
        accumulator,
    ),
    "mma m8n8k4 f64": (
        lambda t, i: (t // 4, t % 4),
        lambda t, i: (t % 4, t // 4),
        lambda t, i: (t // 4, t % 4 * 2 + i),
    ),
    # AMD: A[t % 16][t / 16], B[t / 16][t % 16], C[4 (t / 16) + i][t % 16]
    "mfma m16n16k4 f32": (
        lambda t, i: (t % 16, t // 16),
        lambda t, i: (t // 16, t % 16),
        lambda t, i: (4 * (t // 16) + i, t % 16),
    ),
}


@pytest.mark.parametrize("name", MANUAL)
def test_fragments_are_those_of_the_manuals(name: str) -> None:
    atom = by_name(name)
    assert atom.b is not None
    for fragment, manual in zip((atom.a, atom.b, atom.c), MANUAL[name], strict=True):
        expected = tuple(tuple(manual(t, i) for i in range(fragment.size)) for t in range(fragment.threads))
        assert fragment.positions() == expected


@pytest.mark.parametrize("n", [32, 64, 128, 256])
def test_a_warpgroup_has_four_warps_below_each_other(n: int) -> None:
    """PTX ISA, wgmma D fragment: row 16 warp + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + lane % 4 * 2 + i % 2."""
    atom = by_name(f"wgmma m64n{n}k16 bf16")
    for t, held in enumerate(atom.c.positions()):
        lane, row = t % 32, t // 32 * 16
        assert held == tuple(
            (row + lane // 4 + i // 2 % 2 * 8, i // 4 * 8 + lane % 4 * 2 + i % 2) for i in range(n // 2)
        )
    a = by_name("mma m16n8k16 bf16").a
    for t, held in enumerate(atom.a.positions()):
        assert held == tuple((t // 32 * 16 + row, column) for row, column in a.positions()[t % 32])


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_every_element_has_an_owner(atom: Atom) -> None:
    """Accumulators exactly one; operands as many as hold copies."""
    for fragment, shape in ((atom.a, (atom.m, atom.k)), (atom.b, (atom.k, atom.n)), (atom.c, (atom.m, atom.n))):
        if fragment is None:
            assert atom.family == "wgmma"
            continue
        owners = Counter(position for held in fragment.positions() for position in held)
        assert set(owners) == set(np.ndindex(shape))
        assert set(owners.values()) == {1 if fragment is atom.c else int(fragment.copies)}
        assert fragment.copies == 1 or atom.family == "fma"


def test_the_pitfall_of_mfma() -> None:
    """Paper, section 3.1: with Q[i, :] = i and K = I, thread t gets column t % 16 of the result, not row t % 16."""
    atom = by_name("mfma m16n16k4 f32")
    q = np.repeat(np.arange(16), 16).reshape(16, 16)
    rows = [[int(q[position]) for position in held] for held in atom.c.positions()]
    assert rows[5] == [0, 1, 2, 3]
    assert rows[37] == [8, 9, 10, 11]


@pytest.mark.parametrize(
    "change",
    [
        {"operand": "f12"},
        {"k": 32},
        {"c": Fragment(((4, 0, 2), (8, 1, 0)), ((2, 0, 1),))},
        {"c": Fragment(((4, 0, 2), (8, 1, 0)), ((2, 0, 1), (2, 0, 1), (2, 8, 0)))},
    ],
)
def test_a_wrong_atom_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Atom"):
        replace(by_name("mma m16n8k16 bf16"), **change)
