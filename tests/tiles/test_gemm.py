"""Tiles of products: the paper's numbers from its hardware row, and what changes with the row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax.hardware import CDNA, GPUS, Gpu
from numstax.tiles.cost import compulsory, cost_of
from numstax.tiles.feasibility import FeasibilityVisitor, Infeasible, Usage, usage_of
from numstax.tiles.gemm import GemmTile, Product, gemm_tile, gemm_tiles, gemm_tree

H200 = GPUS["H200"]


def tile_of(gpu: Gpu, m: int, n: int, k: int, operand: str, **options: object) -> GemmTile:
    found = gemm_tile(gpu, m, n, k, operand, **options)  # type: ignore[arg-type]
    assert isinstance(found, GemmTile)
    return found


def test_the_tiles_of_the_paper() -> None:
    """Section 4.  Not stated there: a row of a k step is one line of 128 bytes (tK = 32); A and B have two buffers,
    which fill the 64 KB exactly; a block has 16 warps, as many as it may; and fragments two, so that k = 8."""
    tile = tile_of(CDNA, 4096, 4096, 4096, "f32")
    assert tile.block == (128, 128, 32)
    assert tile.warp == (32, 32, 8)
    assert tile.accumulators == 16
    assert (tile.atom.m, tile.atom.n, tile.atom.k) == (16, 16, 4)
    assert tile.shared == CDNA.shared_block == 65536
    assert tile.tiles(4096, 4096) == 1024
    assert round(tile.tiles(4096, 4096) / CDNA.sms, 1) == 8.5


def test_registers_of_the_paper() -> None:
    tile = tile_of(CDNA, 4096, 4096, 4096, "f32")
    needs = FeasibilityVisitor(gemm_tree(Product(4096, 4096, 4096, "f32", 4), tile), CDNA).run()
    assert needs.registers("acc") == 16
    assert needs.registers("a") == needs.registers("b") == 4
    assert needs.registers_thread <= CDNA.registers_thread


def test_the_binding_constraint() -> None:
    """One step up from the paper's tile, shared memory is exceeded; a warp's tile of four times the size, registers."""
    tile = tile_of(CDNA, 4096, 4096, 4096, "f32")
    problem = Product(4096, 4096, 4096, "f32", 4)
    larger = replace(tile, block=(256, 128, 32), warp=(64, 32, 8))
    assert usage_of(gemm_tree(problem, larger), CDNA) == Infeasible("block", "bytes of shared memory", 98304, 65536)
    wide = replace(tile, warp=(128, 128, 8))
    found = usage_of(gemm_tree(problem, wide), CDNA)
    assert isinstance(found, Infeasible)
    assert (found.level, found.resource, found.available) == ("warp", "registers a thread", 256)
    crooked = replace(tile, warp=(24, 32, 8))
    assert Infeasible("atom", "values of m at a time", 16, 24) in _broken(gemm_tree(problem, crooked))


def _broken(operator: object) -> tuple[Infeasible, ...]:
    return FeasibilityVisitor(operator, CDNA).run().broken  # type: ignore[arg-type]


def test_nothing_fits() -> None:
    """Every tile's constraint is known; the one reported is that of the tile which comes nearest."""
    tiny = replace(CDNA, shared_block=1024)
    found = gemm_tile(tiny, 4096, 4096, 4096, "f32")
    assert isinstance(found, Infeasible)
    assert (found.level, found.resource, found.available) == ("block", "bytes of shared memory", 1024)
    none = gemm_tile(CDNA, 64, 64, 64, "bf16")
    assert str(none) == "device: 1 matrix instructions for bf16, 0 available"
    assert isinstance(gemm_tile(H200, 64, 64, 64, "bf16", family="mfma"), Infeasible)


@pytest.mark.parametrize(
    ("gpu", "block", "stages", "threads"),
    [
        ("A100", (128, 256, 64), 3, 256),
        ("H100", (128, 256, 64), 4, 384),
        ("H200", (128, 256, 64), 4, 384),
        ("L40S", (128, 128, 64), 3, 128),
        ("RTX 4090", (128, 128, 64), 3, 128),
        ("B200", (128, 128, 64), 7, 128),
    ],
)
def test_only_the_row_changes(gpu: str, block: tuple[int, int, int], stages: int, threads: int) -> None:
    tile = tile_of(GPUS[gpu], 4096, 4096, 4096, "bf16", out=2)
    assert (tile.block, tile.stages, tile.threads) == (block, stages, threads)
    assert tile.shared <= GPUS[gpu].shared_block
    assert tile.atom in GPUS[gpu].atoms


def test_one_fact_of_the_row_changes_the_tile() -> None:
    half = tile_of(replace(CDNA, shared_block=32 << 10), 4096, 4096, 4096, "f32")
    assert half.block == (64, 64, 32)
    many = tile_of(replace(H200, sms=1024), 4096, 4096, 4096, "bf16", out=2)
    assert many.block[0] * many.block[1] < 128 * 256


@pytest.mark.parametrize("size", [512, 1024, 1536])
def test_a_tile_shrinks_where_sms_would_be_idle(size: int) -> None:
    tile, large = (tile_of(H200, n, n, n, "bf16", out=2) for n in (size, 8192))
    assert large.tiles(size, size) < H200.sms
    assert tile.block[0] * tile.block[1] < large.block[0] * large.block[1]
    # not further than pays: at 512, blocks for all SMs would load more than the others gain
    assert tile.tiles(size, size) * tile.split >= (0.45 if size == 512 else 0.9) * H200.sms


def test_nearly_all_sms_are_enough() -> None:
    """2048 cubed: 128 large tiles for 132 SMs are done sooner than two rounds of smaller ones."""
    assert tile_of(H200, 2048, 2048, 2048, "bf16", out=2).block == (128, 256, 64)


def test_long_sums_are_split() -> None:
    """k >= 128 max(m, n), or fewer tiles than SMs; every part has some steps."""
    tile = tile_of(H200, 128, 128, 131072, "bf16", out=2)
    assert tile.split > 1
    assert H200.sms // 2 < tile.split * tile.tiles(128, 128) <= H200.sms
    assert tile_of(H200, 8192, 8192, 65536, "bf16", out=2).split == 1
    assert all(t.split == 1 for t in _every(H200, 4096, 4096, 4096) if t.tiles(4096, 4096) >= H200.sms)


def _every(gpu: Gpu, m: int, n: int, k: int) -> tuple[GemmTile, ...]:
    found = gemm_tiles(gpu, m, n, k, "bf16", out=2)
    assert not isinstance(found, Infeasible)
    return found


@given(rows=st.integers(1, 64), columns=st.integers(1, 64), together=st.integers(1, 256), group=st.integers(1, 32))
def test_grouped_numbering(rows: int, columns: int, together: int, group: int) -> None:
    """Proposition 9.4, counted: W blocks numbered in groups of G rows read G row blocks and W / G column blocks."""
    if together % group or together // group > columns or group > rows:
        return
    blocks = [(i % group, i // group) for i in range(together)]
    assert len({r for r, _ in blocks}) + len({c for _, c in blocks}) == group + together // group
    assert group + together // group >= 2 * together**0.5 - 1e-9


def test_the_group_is_the_best_for_the_blocks_that_run_together() -> None:
    """The text's example: 32 x 32 square blocks, 128 at a time."""
    tile = tile_of(replace(CDNA, sms=128), 4096, 4096, 4096, "f32")
    assert tile.group in (8, 16)  # both read 24 blocks


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 5000), n=st.integers(1, 5000), k=st.integers(1, 20000),
    gpu=st.sampled_from(sorted(GPUS)), operand=st.sampled_from(["bf16", "tf32", "f32", "i8"]),
)  # fmt: skip
def test_every_tile_fits(m: int, n: int, k: int, gpu: str, operand: str) -> None:
    found = gemm_tiles(GPUS[gpu], m, n, k, operand)
    assert not isinstance(found, Infeasible)
    for tile in found[:6]:
        assert tile.shared <= GPUS[gpu].shared_block
        assert tile.threads <= 1024
        assert tile.block[0] % tile.warp[0] == tile.block[1] % tile.warp[1] == tile.warp[2] % tile.atom.k == 0
        assert tile.stages >= 2
        assert tile.cost > 0
    assert found[0].cost <= 1.02 * min(tile.cost for tile in found)


def test_the_traffic_of_blocks_is_that_of_the_formula() -> None:
    """Section 9.8: every block reads (B_M + B_N) k elements; C is written once."""
    tile = tile_of(CDNA, 4096, 4096, 4096, "f32")
    operator = gemm_tree(Product(4096, 4096, 4096, "f32", 4), tile)
    cost = cost_of(operator)
    assert cost.loaded == 1024 * (128 + 128) * 4096 * 4
    assert cost.stored == 4096 * 4096 * 4
    assert cost.multiplications == 4096**3
    assert compulsory(operator) == 3 * 4096 * 4096 * 4


def test_padding_is_computed_but_not_loaded() -> None:
    tile = tile_of(CDNA, 4096, 4096, 4096, "f32")
    cost = cost_of(gemm_tree(Product(4000, 4096, 4096, "f32", 4), tile))
    assert cost.multiplications == 4096**3
    assert cost.loaded == 32 * (4000 + 4096) * 4096 * 4
    assert isinstance(usage_of(gemm_tree(Product(4000, 4096, 4096, "f32", 4), tile), CDNA), Usage)
