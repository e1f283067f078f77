"""Code of other libraries on traced arrays: the array API, einops, SciPy."""

import importlib

import pytest

import numstax
from numstax.errors import UnsupportedOperationError
from tests.support import check, normal

X = normal((2, 3, 4, 5), "f8", 1)
Y = normal((4, 4), "f8", 2)
DTYPES = ("f4", "f8")


def namespace_functions(x):
    xp = x.__array_namespace__()
    return (
        xp.concat([xp.permute_dims(x, (1, 0)), xp.matrix_transpose(x)]), xp.vecdot(x, x), xp.astype(x, xp.float32),
        xp.where(x > 0, x, 0), xp.cumulative_sum(x, axis=0), xp.std(x, correction=1), xp.unstack(x)[0], xp.pow(x, 2),
        xp.bitwise_left_shift(xp.asarray([1, 2]), 1), xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1),
        xp.asarray(x > 0, dtype=xp.bool), xp.linalg.vector_norm(x), xp.linalg.matrix_norm(x), xp.fft.fftshift(x),
        xp.eye(4, dtype=x.dtype) @ x, xp.zeros((3,)), xp.expand_dims(x, axis=0), xp.tile(x, (1, 2)),
    )  # fmt: skip


def namespace_questions(x):
    xp = x.__array_namespace__(api_version="2023.12")
    return (
        xp.finfo(x.dtype).bits, xp.isdtype(x.dtype, "real floating"), x.device, xp.result_type(x, xp.float32) == x.dtype
    )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", [namespace_functions, namespace_questions], ids=lambda f: f.__name__)
def test_array_api(program, dtype) -> None:
    check(program, Y.astype(dtype), ulps=64)


def test_array_api_compat() -> None:
    compat = pytest.importorskip("array_api_compat")

    def standard(x):
        xp = compat.array_namespace(x)
        away = x - xp.mean(x, axis=-1, keepdims=True)
        return away / xp.sqrt(xp.sum(away**2, axis=-1, keepdims=True) / x.shape[-1])

    check(standard, Y, ulps=64)


EINOPS = {
    "rearrange": lambda e: lambda x: e.rearrange(x, "b c (h s) w -> (b h) c s w", s=2),
    "reduce": lambda e: lambda x: e.reduce(x, "b c (h r) w -> b c h w", "max", r=2),
    "mean": lambda e: lambda x: e.reduce(x, "b c h w -> b c", "mean"),
    "repeat": lambda e: lambda x: e.repeat(x, "b c h w -> b c h (w k)", k=3) * 2,
    "list": lambda e: lambda x: e.rearrange([x, x + 1], "k b c h w -> b k c h w"),
    "einsum": lambda e: lambda x: e.einsum(x, x, "b c h w, b d h w -> b c d"),
}


@pytest.mark.parametrize("name", EINOPS)
def test_einops(name) -> None:
    check(EINOPS[name](pytest.importorskip("einops")), X, ulps=256)


def scipy_programs():
    scipy = pytest.importorskip("scipy")
    for module in "fft linalg ndimage signal sparse special stats".split():
        importlib.import_module(f"scipy.{module}")

    smooth = scipy.signal.butter(2, 0.3, output="sos")
    laplace = scipy.sparse.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(4, 4)).tocsr()
    wide = scipy.stats.norm(0, 2)
    return {
        "special": lambda x: scipy.special.erf(x) + scipy.special.gammaln(abs(x) + 1) * scipy.special.j0(x),
        "softmax": lambda x: scipy.special.softmax(x, axis=1) - scipy.special.logsumexp(x, axis=1, keepdims=True),
        "filter": lambda x: scipy.ndimage.gaussian_filter(x, 1.0) * 2,
        "convolve": lambda x: scipy.signal.convolve2d(x, x, mode="same"),
        "smooth": lambda x: scipy.signal.sosfilt(smooth, x),
        "solve": lambda x: scipy.linalg.solve(x, x[0]) + 1,
        "lu": lambda x: scipy.linalg.lu(x),
        "dct": lambda x: scipy.fft.dct(x),
        "distribution": lambda x: scipy.stats.norm.pdf(x) + scipy.stats.norm.cdf(x, 0, 2),
        "frozen": lambda x: wide.pdf(x),
        "sparse": lambda x: laplace @ x + x @ laplace,
        "labels": lambda x: scipy.ndimage.label(x > 0),
    }


@pytest.mark.parametrize(
    "name",
    "special softmax filter convolve smooth solve lu dct distribution frozen sparse labels".split(),
)
def test_scipy(name) -> None:
    check(scipy_programs()[name], Y, ulps=512)


def test_what_scipy_functions_cannot_take() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    stats = pytest.importorskip("scipy.stats")
    with pytest.raises(UnsupportedOperationError, match=r"calls <lambda>\(\) back"):
        numstax.jit(lambda x: optimize.minimize(lambda p: (p**2).sum(), x[0]).x, strict=True)(Y)
    with pytest.raises(UnsupportedOperationError, match="PearsonRResult"):
        numstax.jit(lambda x: stats.pearsonr(x[0], x[1]), strict=True)(Y)
