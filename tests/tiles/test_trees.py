"""Algorithm trees compute what their operators mean, at every level, with clipped edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from numstax.atoms import ATOMS
from numstax.hardware import CDNA, GPUS, Gpu
from numstax.tiles.attention import (
    Attention,
    AttentionTile,
    attention_tile,
    attention_tree,
    chains,
    fused_traffic,
    unfused_traffic,
)
from numstax.tiles.compute import ComputeVisitor, execute
from numstax.tiles.conv import Convolution, ConvTile, conv_tile, conv_tree, folded, replicated
from numstax.tiles.cost import cost_of
from numstax.tiles.feasibility import FeasibilityVisitor, Infeasible
from numstax.tiles.gemm import GemmTile, Product, gemm_tile, gemm_tree
from numstax.tiles.softmax import SoftmaxTile, softmax_tile, softmax_tree
from numstax.tiles.tree import LEVELS

H200 = GPUS["H200"]
RANDOM = np.random.default_rng(4)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_products_go_through_the_fragments(atom: object) -> None:
    m, n, k = atom.m - 1, atom.n, max(atom.k - 1, 1)  # type: ignore[attr-defined]
    a, b = RANDOM.standard_normal((m, k)), RANDOM.standard_normal((k, n))
    np.testing.assert_allclose(execute(atom, a, b), a @ b, rtol=1e-12, atol=1e-12)  # type: ignore[arg-type]


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("gpu", "operand"), [(CDNA, "f32"), (H200, "bf16"), (GPUS["A100"], "tf32"), (H200, "f64")])
def test_products(level: str, gpu: Gpu, operand: str) -> None:
    m, n, k = 70, 45, 83
    tile = gemm_tile(gpu, m, n, k, operand)
    assert isinstance(tile, GemmTile)
    a, b = RANDOM.standard_normal((2, m, k)), RANDOM.standard_normal((2, k, n))
    for split in (1, 2):
        operator = gemm_tree(Product(m, n, k, operand, 4, batch=2), replace(tile, split=split))
        arrays = ComputeVisitor(operator, {"a": a, "b": b}, level).run()
        close(arrays["c"], a @ b)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [32, 512])
def test_softmax(level: str, columns: int) -> None:
    x = RANDOM.standard_normal((21, 300)) * 30
    arrays = ComputeVisitor(softmax_tree(21, 300, 4, SoftmaxTile(4, columns)), {"x": x}, level).run()
    close(arrays["y"], softmax(x))


def test_tiles_of_softmax() -> None:
    """Rows that a warp's registers hold are read once, longer ones twice; few rows are spread over the SMs."""
    short = softmax_tile(CDNA, 512, 512)
    assert short == SoftmaxTile(4, 512)
    assert cost_of(softmax_tree(512, 512, 4, SoftmaxTile(4, 512))).loaded == 512 * 512 * 4
    long = softmax_tile(H200, 64, 100_000)
    assert isinstance(long, SoftmaxTile)
    assert long.rows == 1
    assert long.columns < 100_000
    assert cost_of(softmax_tree(64, 100_000, 4, long)).loaded == 2 * 64 * 100_000 * 4
    assert isinstance(softmax_tile(replace(CDNA, shared_block=64), 512, 512), Infeasible)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(q @ k.swapaxes(-1, -2)) @ v


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("gpu", "operand"), [(CDNA, "f32"), (H200, "bf16"), (GPUS["A100"], "f16")])
def test_attention(level: str, gpu: Gpu, operand: str) -> None:
    queries, keys, depth = 37, 150, 32
    tile = attention_tile(gpu, queries, keys, depth, operand)
    assert isinstance(tile, AttentionTile)
    q, k, v = (RANDOM.standard_normal((2, n, depth)) for n in (queries, keys, keys))
    operator = attention_tree(Attention(queries, keys, depth, operand, batch=2), tile)
    close(ComputeVisitor(operator, {"q": q, "k": k, "v": v}, level).run()["out"], attend(q, k, v))


@pytest.mark.parametrize("length", [4096, 8192, 16384, 32768])
def test_attention_of_the_paper(length: int) -> None:
    """Section 6, d = 128 in float32.  Not stated there: K and V take turns in one buffer, since the scores go through
    shared memory beside them; a wavefront owns 16 rows of queries; what blocks read again comes from the L2 cache."""
    tile = attention_tile(CDNA, length, length, 128, "f32")
    assert isinstance(tile, AttentionTile)
    assert (tile.queries, tile.keys) == (32, 64)
    problem = Attention(length, length, 128, "f32")
    fused, unfused = fused_traffic(problem, tile), unfused_traffic(problem)
    # what is saved grows as L / (4 d): that is one pass over the matrix of scores, which is made four times
    assert unfused / fused == 1 + 4 * length / (4 * 128)
    if length == 16384:
        assert (round(fused / 1e6), round(unfused / 1e6), round(unfused / fused)) == (34, 4329, 129)


def test_resources_of_the_papers_attention() -> None:
    tile = attention_tile(CDNA, 16384, 16384, 128, "f32")
    assert isinstance(tile, AttentionTile)
    problem = Attention(16384, 16384, 128, "f32")

    def needs(**change: int) -> tuple[int, int]:
        usage = FeasibilityVisitor(attention_tree(problem, replace(tile, **change)), CDNA).run()
        return usage.shared, usage.registers("s") + usage.registers("o")

    # Q 16 KB, scores 8 KB, K or V 32 KB
    assert needs() == ((16 + 8 + 32) << 10, 16 + 32)
    assert needs(queries=64)[0] == (32 + 16 + 32) << 10
    assert needs(keys=128)[0] == (16 + 16 + 64) << 10


def test_unfused_attention_is_three_trees() -> None:
    """The traffic of the unfused baseline is what its kernels touch: products and softmax, each array once."""
    length, depth = 256, 128
    problem = Attention(length, length, depth, "f32")
    scores, values = Product(length, length, depth, "f32", 4), Product(length, depth, length, "f32", 4)
    total = 0
    for product in (scores, values):
        tile = gemm_tile(CDNA, product.m, product.n, product.k, "f32")
        assert isinstance(tile, GemmTile)
        total += (
            4 * (product.m * product.k + product.k * product.n)
            + cost_of(gemm_tree(product, replace(tile, split=1))).stored
        )
    soft = cost_of(softmax_tree(length, length, 4, SoftmaxTile(4, 256)))
    assert unfused_traffic(problem) == total + soft.loaded + soft.stored


def test_which_products_chain() -> None:
    """Section 3.1: mfma's result lies in its threads as its operand does not; that of mma with 16 bits does."""
    atoms = {atom.name: atom for atom in ATOMS}
    for name, expected in (
        ("mfma m16n16k4 f32", False),
        ("mma m16n8k16 bf16", True),
        ("mma m16n8k8 f16", True),
        ("mma m16n8k8 tf32", False),
        ("mma m16n8k32 f8e4m3", False),
        ("wgmma m64n128k16 bf16", True),
        ("wgmma m64n128k8 tf32", False),
    ):
        assert chains(atoms[name], atoms[name]) is expected


@pytest.mark.parametrize(
    ("gpu", "depth", "block"),
    [("H200", 128, (128, 128)), ("H200", 64, (128, 128)), ("A100", 128, (128, 64)), ("L40S", 128, (128, 64))],
)
def test_attention_on_other_rows(gpu: str, depth: int, block: tuple[int, int]) -> None:
    tile = attention_tile(GPUS[gpu], 8192, 8192, depth, "bf16", batch=16)
    assert isinstance(tile, AttentionTile)
    assert (tile.queries, tile.keys) == block


def convolve(x: np.ndarray, w: np.ndarray, problem: Convolution) -> np.ndarray:
    """From the definition; x (b, g, *image, c), w (g, u, v, c, f)."""
    (ph, pw), (sh, sw), (dh, dw), (rows, columns) = problem.padding, problem.stride, problem.dilation, problem.result
    out = np.zeros((problem.batch, problem.groups, rows, columns, problem.filters))
    for y, xx, u, v in np.ndindex(rows, columns, *problem.window):
        i, j = y * sh + u * dh - ph, xx * sw + v * dw - pw
        if 0 <= i < problem.image[0] and 0 <= j < problem.image[1]:
            out[:, :, y, xx] += np.einsum("bgc,gcf->bgf", x[:, :, i, j], w[:, u, v])
    return out


CONVOLUTIONS = [
    Convolution(2, (9, 11), 64, 20, (3, 3), "f32", 4, padding=(1, 1)),
    Convolution(1, (12, 10), 40, 7, (3, 2), "f32", 4, stride=(2, 1), dilation=(1, 2), groups=2),
    Convolution(2, (13, 13), 3, 8, (7, 7), "f32", 4, stride=(2, 2), padding=(3, 3)),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("problem", CONVOLUTIONS)
def test_convolution(level: str, problem: Convolution) -> None:
    tile = conv_tile(CDNA, problem)
    assert isinstance(tile, ConvTile)
    x = RANDOM.standard_normal((problem.batch, problem.groups, *problem.image, problem.channels))
    w = RANDOM.standard_normal((problem.groups, *problem.window, problem.channels, problem.filters))
    inputs = {"x": x, "w": w}
    if tile.replicated:
        inputs = {"x": replicated(x, problem), "w": w.reshape(problem.groups, 1, 1, -1, problem.filters)}
    close(ComputeVisitor(conv_tree(tile), inputs, level).run()["out"], convolve(x, w, problem))


def test_few_channels_become_one_partial_sum() -> None:
    """Paper, section 5.2: three channels and a window of 2 by 2 are twelve channels."""
    problem = Convolution(1, (225, 225), 3, 64, (2, 2), "f32", 4)
    assert folded(problem).channels == 12
    tile = conv_tile(CDNA, problem)
    assert isinstance(tile, ConvTile)
    assert tile.replicated
    assert tile.problem.window == (1, 1)
    many = conv_tile(CDNA, replace(problem, channels=64))
    assert isinstance(many, ConvTile)
    assert not many.replicated


def test_boxes_of_pixels_hold_the_rows_of_the_product() -> None:
    problem = Convolution(32, (56, 56), 64, 64, (3, 3), "bf16", 2, padding=(1, 1))
    tile = conv_tile(H200, problem)
    assert isinstance(tile, ConvTile)
    assert tile.pixels[0] * tile.pixels[1] == tile.gemm.block[0]
    assert tile.pixels[1] == 64
    usage = FeasibilityVisitor(conv_tree(tile), H200).run()
    assert not usage.broken
    refused = conv_tile(replace(CDNA, shared_block=512), problem)
    assert isinstance(refused, Infeasible)
