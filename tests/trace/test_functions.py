"""Every NumPy function that tracing knows, against NumPy: dtypes, layouts, scalars."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from tests.trace.support import check

R = np.random.default_rng(5)
A = R.uniform(-2, 2, (4, 5))
B = R.uniform(0.1, 2, (4, 5))
V = R.uniform(-2, 2, 6)
SQ = R.uniform(-2, 2, (3, 3))
CUBE = R.uniform(-2, 2, (2, 3, 4))
NAN = np.where(R.uniform(size=(4, 5)) < 0.3, np.nan, A)
I = R.integers(0, 4, (4, 5))
IDX = np.array([0, 2, 1, 2])
M = R.uniform(size=(4, 5)) < 0.5
C = A + 1j * B

REDUCTIONS = {
    "sum": np.sum,
    "sum0": lambda x: np.sum(x, axis=0),
    "sum_keep": lambda x: x.sum(axis=(0, -1), keepdims=True),
    "prod": lambda x: x.prod(1),
    "max": np.max,
    "min1": lambda x: x.min(axis=1),
    "mean": np.mean,
    "mean0": lambda x: x.mean(0, keepdims=True),
    "var": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: x.std(),
    "any": lambda x: (x > 1).any(axis=0),
    "all": lambda x: np.all(x),
    "argmax": lambda x: (x.argmax(), x.argmax(axis=0), np.argmin(x, axis=1, keepdims=True)),
    "count": lambda x: (np.count_nonzero(x), np.count_nonzero(x, axis=0)),
    "cumsum": lambda x: (np.cumsum(x), x.cumsum(axis=1), np.cumprod(x, axis=0)),
    "ptp": lambda x: np.ptp(x, axis=1),
    "where": lambda x: (np.sum(x, where=x > 0), np.max(x, axis=0, where=x > 1, initial=1), np.mean(x, where=x > 0)),
    "initial": lambda x: (x.sum(initial=3), np.max(x, initial=1, axis=1), np.prod(x, initial=2)),
    "reduce": lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.add.accumulate(x, axis=1)),
    "median": lambda x: np.median(x, axis=0),
    "norm": lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, ord=1, axis=0)),
    "average": lambda x: (np.average(x), np.average(x, axis=1, weights=np.arange(1.0, x.shape[1] + 1))),
    "sorts": lambda x: (np.sort(x, axis=0), np.argsort(x, axis=1, kind="stable")),
}
DTYPES = ["?", "i1", "u1", "i4", "i8", "u8", "f2", "f4", "f8"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_keep_dtypes(name: str, dtype: str) -> None:
    if name == "ptp" and dtype == "?":
        pytest.skip("NumPy refuses boolean subtract")
    # float16: NumPy's mean of squares and products round at each step, ours once
    check(REDUCTIONS[name], (B * 2).astype(dtype), rtol=2e-2 if dtype == "f2" else 0)


LAYOUTS = {
    "fortran": lambda x: np.asfortranarray(x),
    "reversed": lambda x: x[::-1, ::-2],
    "transposed": lambda x: x.T,
    "broadcast": lambda x: np.broadcast_to(x[:, :1], x.shape),
    "empty": lambda x: x[:, :0],
    "wide": lambda x: x[None, :, None],
}
LAYOUT_PROGRAMS = {
    "arithmetic": lambda x: x * 2 - x / 3 + (x > 0),
    "reduce": lambda x: (x.sum(0), x.mean(axis=-1), x.T.sum(0)),
    "views": lambda x: (x[::-1], x.T, x[..., 0:1], x.reshape(-1), x.ravel(order="F"), x.swapaxes(0, 1)),
    "join": lambda x: np.concatenate([x, x * 2], axis=-1),
    "writes": lambda x: _write(x.copy()),
    "cumulative": lambda x: np.cumsum(x, axis=-1),
    "where": lambda x: np.where(x > 0, x, -x),
}


def _write(x):
    x[..., 0:2] += 1
    x.T[...] *= 2
    return x


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("program", LAYOUT_PROGRAMS)
def test_layouts(program: str, layout: str) -> None:
    check(LAYOUT_PROGRAMS[program], LAYOUTS[layout](A))


FUNCTIONS = {
    "unary": (lambda x: [f(x) for f in (np.exp, np.sqrt, np.log1p, np.tanh, np.floor, np.sign, np.square)], (B,)),
    "binary": (lambda x, y: (np.arctan2(x, y), np.hypot(x, y), np.fmod(x, y), np.copysign(x, y), x**y), (B, B)),
    "integers": (lambda i: (i // 3, i % 3, -i // 3, i << 2, i & 3, ~i, i**2, np.gcd(i, 6), divmod(i, 3)), (I,)),
    "complex": (lambda c: (c * c.conj(), abs(c), np.angle(c), c.real + c.imag, np.exp(c), c**2), (C,)),
    "modf": (lambda x: (np.modf(x), np.frexp(x), np.divmod(x, 0.3)), (A,)),
    "rounding": (lambda x: (np.round(x, 2), x.round(), np.fix(x), np.rint(x), np.trunc(x), np.round(x, -1)), (A,)),
    "compare": (lambda x: (np.isclose(x, x + 1e-9), np.allclose(x, x), np.array_equal(x, x + 1)), (A,)),
    "tests": (lambda x: (np.isnan(x), np.isposinf(1 / x), np.nan_to_num(x, nan=7.0), np.isreal(x)), (NAN,)),
    "nan": (
        lambda x: [
            f(x, axis=0) for f in (np.nansum, np.nanmean, np.nanmax, np.nanmin, np.nanvar, np.nanstd, np.nanprod)
        ],
        (NAN,),
    ),
    "nancum": (lambda x: (np.nancumsum(x), np.nancumprod(x, axis=1), np.nansum(x)), (NAN,)),
    "where": (lambda m, x: (np.where(m, x, 0), np.where(m, 1, x), np.where(x, 2, 3)), (M, A)),
    "clip": (lambda x: (np.clip(x, 0, 1), x.clip(-1), x.clip(max=0.5), np.clip(x, x.min(), None)), (A,)),
    "select": (lambda x: np.select([x < 0, x > 1], [x, x * 2], 5), (A,)),
    "choose": (lambda i: np.choose(i, [i * 0, i + 10, i, i * 2]), (I,)),
    "take": (lambda x, i: (np.take(x, i, axis=0), x.take(i), np.take(x, [7, -1], mode="wrap"), x.take(2)), (A, IDX)),
    "along": (lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), (A,)),
    "gather": (lambda x, i: (x[i], x[:, i], x[i, i], x[i[:, None], [0, 1]], x[i][:, 1:]), (A, IDX)),
    "gather_axes": (lambda x: (x[:, [0, 2], 1], x[0, :, [1, 2, 3]], x[..., [1, 0]], x[[1], :, None]), (CUBE,)),
    "known_mask": (lambda x: x[np.arange(4) % 2 == 0], (A,)),
    "joins": (lambda x: (np.stack([x, x], 1), np.vstack([x, x[0]]), np.hstack([x, x]), np.dstack([x, x])), (A,)),
    "columns": (lambda v: (np.column_stack([v, v]), np.append(v, 1), np.block([[v, v], [v, v]]), np.c_[v, v]), (V,)),
    "promote": (lambda x, i: np.concatenate([x, i], axis=1), (A.astype("f4"), I)),
    "splits": (lambda v: (np.split(v, 3), np.array_split(v, 4), np.split(v, [1, 4]), np.hsplit(v, 2)), (V,)),
    "tile": (lambda x: (np.tile(x, 2), np.tile(x, (2, 1, 2)), np.repeat(x, 2), x.repeat(3, axis=0)), (A,)),
    "repeat_counts": (lambda v: np.repeat(v, [1, 0, 2, 1, 1, 3]), (V,)),
    "flips": (lambda x: (np.flip(x), np.flipud(x), np.fliplr(x), [np.rot90(x, k) for k in range(5)]), (A,)),
    "roll": (
        lambda x: (np.roll(x, 2), np.roll(x, -1, axis=1), np.roll(x, (1, 2), axis=(0, 1)), np.roll(x, 7, 0)),
        (A,),
    ),
    "pad": (lambda x: [np.pad(x, 2, mode=m) for m in ("constant", "edge", "wrap", "reflect", "symmetric")], (A,)),
    "pad_widths": (
        lambda x: (np.pad(x, ((1, 0), (0, 2)), constant_values=3), np.pad(x, (1, 2), constant_values=(4, 5))),
        (A,),
    ),
    "pad_extern": (lambda x: np.pad(x, 1, mode="linear_ramp"), (A,)),
    "shapes": (
        lambda x: (x.reshape(2, -1), x.reshape((5, 4), order="F"), x.ravel(), x.flatten(), np.squeeze(x[None])),
        (A,),
    ),
    "axes": (
        lambda x: (
            x.transpose(2, 0, 1),
            np.moveaxis(x, 0, -1),
            np.rollaxis(x, 2),
            x.swapaxes(0, 2),
            np.expand_dims(x, 1),
        ),
        (CUBE,),
    ),
    "at_least": (lambda v: (np.atleast_1d(v), np.atleast_2d(v), np.atleast_3d(v)), (V,)),
    "broadcast": (lambda v: (np.broadcast_to(v, (3, 6)), np.broadcast_arrays(v, v[:, None])), (V,)),
    "windows": (lambda v: (sliding_window_view(v, 3), sliding_window_view(v, 3).mean(axis=1)), (V,)),
    "diagonals": (lambda x: (np.diagonal(x, 1), x.trace(), np.diag(x), np.diag(x[0]), np.diag(x[0], -2)), (A,)),
    "triangles": (lambda x: (np.tril(x), np.triu(x, 1), np.tri(3, 4, 1) + x[0, 0]), (A,)),
    "diff": (
        lambda x: (np.diff(x), np.diff(x, n=2, axis=0), np.ediff1d(x), np.gradient(x[0]), np.gradient(x, 0.5)),
        (A,),
    ),
    "integrate": (lambda x: (np.trapezoid(x), np.trapezoid(x, dx=0.5, axis=0), np.sinc(x)), (A,)),
    "interp": (lambda v: (np.interp(v, [-1.0, 0, 1], [2.0, 3, 5]), np.searchsorted([-1.0, 0, 1], v)), (V,)),
    "matmul": (lambda x, y: (x @ y.T, x @ y[0], x[0] @ y.T, x[0] @ y[0], np.matmul(x[None], y.T)), (A, B)),
    "dot": (lambda x, y: (np.dot(x, y.T), x.dot(y[0]), np.dot(x[0], y[0]), np.vdot(x, y), np.inner(x, y)), (A, B)),
    "tensordot": (lambda x: (np.tensordot(x, x, axes=([1, 2], [1, 2])), np.tensordot(x, x[0], 2)), (CUBE,)),
    "outer": (lambda x, y: (np.outer(x, y), np.kron(x, y), np.add.outer(x[0], y[0])), (SQ, SQ)),
    "cross": (lambda x: (np.cross(x, x[::-1]), np.cross(x[0], x[1]), np.linalg.norm(x, ord=np.inf)), (SQ,)),
    "einsum": (
        lambda x, y: [
            np.einsum(s, x, y)
            for s in (
                "ij,kj->ik",
                "ij,ij->i",
                "ij,ij",
                "ij,ij->ij",
                "ij,kl->ijkl",
                "ij,kj",
                "...j,...j->...",
                "ij,kl->jl",
            )
        ],
        (A, B),
    ),
    "einsum_one": (
        lambda x: (np.einsum("ii", x), np.einsum("ii->i", x), np.einsum("ij->ji", x), np.einsum("ij->", x)),
        (SQ,),
    ),
    "einsum_three": (lambda x: (np.einsum("ij,jk,kl->il", x, x, x), np.einsum("i,ij,j", x[0], x, x[1])), (SQ,)),
    "einsum_batch": (lambda x: np.einsum("bij,bkj->bik", x, x), (CUBE,)),
    "linalg": (
        lambda x: (np.linalg.inv(x), np.linalg.det(x), np.linalg.solve(x, x[0]), np.linalg.matrix_power(x, 3)),
        (SQ,),
    ),
    "named_result": (lambda x: np.linalg.eigh(x + x.T).eigenvalues, (SQ,)),
    "fft": (lambda v: (np.fft.fft(v), np.fft.irfft(np.fft.rfft(v))), (V,)),
    "percentile": (lambda x: (np.percentile(x, 30), np.quantile(x, [0.1, 0.5], axis=0), np.histogram(x, 4)), (A,)),
    "cov": (lambda x: (np.cov(x), np.convolve(x[0], [1.0, 2, 1]), np.correlate(x[0], x[1])), (A,)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, *args)


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4", "c8"])
@pytest.mark.parametrize("name", ["joins", "tile", "roll", "pad", "flips", "shapes", "where_same", "diff_same"])
def test_functions_keep_dtype(name: str, dtype: str) -> None:
    extra = {
        "where_same": lambda x: (np.where(x.real > 0, x, x * 2), x * 2, x + 1),
        "diff_same": lambda x: (np.diff(x), np.stack([x, x]), np.square(x), np.abs(x)),
    }
    check(extra.get(name) or FUNCTIONS[name][0], (A * 3).astype(dtype))


CREATION = {
    "zeros": lambda s: (np.zeros(3) + s, np.ones((2, 3), int), np.full(3, 7), np.full((2,), s), np.empty(0)),
    "arange": lambda s: (
        np.arange(5),
        np.arange(2, 9, 3),
        np.arange(0, 1, 0.3),
        np.arange(5, 0, -2),
        np.arange(3.0) * s,
    ),
    "arange_dtype": lambda s: (np.arange(4, dtype=np.float32), np.arange(1, 4, dtype="u1"), np.arange(0)),
    "linspace": lambda s: (
        np.linspace(0, 1, 5),
        np.linspace(0, 2, 4, endpoint=False),
        np.linspace(0, s, 3),
        np.logspace(0, 2, 3),
        np.linspace(0, 9, 4, dtype=int),
        np.linspace(0, 1, 1),
        np.linspace(0, 1, 5, retstep=True),
    ),
    "eye": lambda s: (np.eye(3), np.eye(2, 4, 1), np.identity(2), np.eye(3, dtype=bool), np.eye(3, k=-1) * s),
    "grids": lambda s: (
        np.meshgrid(np.arange(3), np.arange(2.0)),
        np.indices((2, 3)),
        np.mgrid[0:2, 0:3],
        np.ogrid[0:2, 0:3],
    ),
    "grids_complex": lambda s: (
        np.mgrid[0:1:3j],
        np.meshgrid([1, 2], [3], [4, 5], indexing="ij"),
        np.mgrid[-1:1:3j, 0:2],
    ),
    "like": lambda s: (np.zeros_like(s), np.full_like(np.arange(3), 2), np.ones_like([1.0, 2])),
    "array": lambda s: (
        np.array([s, 2.0, s * 3]),
        np.array([[1, 2], [3, 4]]),
        np.asarray([s, s]),
        np.array(s),
        np.array([1], ndmin=2),
    ),
    "types": lambda s: (
        np.float32(s),
        np.int64(s),
        np.float64(2) * s,
        float(s),
        complex(s),
        np.float16(1.5) * np.float32(s),
    ),
    "from_function": lambda s: np.fromfunction(lambda i, j: i * s + j, (2, 3)),
    "r_": lambda s: (np.r_[1.0, s, 0:3], np.r_[0:2]),
    "known": lambda s: [int(k) for k in np.arange(3)] + [np.zeros(4)[i] + s for i in np.array([1, 2])],
}


@pytest.mark.parametrize("name", CREATION)
def test_creation(name: str) -> None:
    check(CREATION[name], np.float64(1.25))


def _filled(s: np.float64) -> tuple:
    made = np.ndarray((2, 3), dtype=np.float32)
    made[:] = s
    asked = type(made) is np.ndarray, isinstance(made, np.ndarray), issubclass(np.ndarray, np.ndarray)
    return made, asked, np.ndarray.__name__, isinstance(3, np.ndarray)


def test_ndarray_makes_an_array_and_is_a_type() -> None:
    check(_filled, np.float64(1.25))
