"""One call, or a few, of every public function of NumPy: the programs that `docs/coverage.md` reports on.

The letters stand for the arguments that `arguments` makes; calls that end in ``;`` are statements, after which the
arguments are compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import numpy as np

from numstax.records import record
from tests.coverage.functions import FUNCTIONS

UFUNCS = """
abs(a) absolute(a) acos(d) acosh(b+1) add(a,b) arccos(d) arccosh(b+1) arcsin(d) arcsinh(a) arctan(a) arctan2(a,b)
arctanh(d) asin(d) asinh(a) atan(a) atan2(a,b) atanh(d) bitwise_and(i,3) bitwise_count(i) bitwise_invert(i)
bitwise_left_shift(i,2) bitwise_not(i) bitwise_or(i,4) bitwise_right_shift(i,1) bitwise_xor(i,5) cbrt(a) ceil(a)
conj(c) conjugate(c) copysign(a,b) cos(a) cosh(a) deg2rad(a) degrees(a) divide(a,b) divmod(a,b) equal(i,2) exp(a)
exp2(a) expm1(a) fabs(a) float_power(b,a) floor(a) floor_divide(a,b) fmax(n,a) fmin(n,a) fmod(a,b) frexp(a)
gcd(i,6) greater(a,b) greater_equal(a,b) heaviside(a,b) hypot(a,b) invert(i) isfinite(n) isinf(n) isnan(n)
isnat(np.datetime64('NaT'))
lcm(i,6) ldexp(a,i) left_shift(i,2) less(a,b) less_equal(a,b) log(b) log10(b) log1p(b) log2(b) logaddexp(a,b)
logaddexp2(a,b) logical_and(m,a) logical_not(m) logical_or(m,a) logical_xor(m,a) matmul(a,a.T) matvec(s,v[:3])
maximum(a,b) minimum(a,b) mod(a,b) modf(a) multiply(a,b) negative(a) nextafter(a,b) not_equal(i,2) positive(a)
pow(b,a) power(b,a) rad2deg(a) radians(a) reciprocal(b) remainder(a,b) right_shift(i,1) rint(a) sign(a) signbit(a)
sin(a) sinh(a) spacing(a) sqrt(b) square(a) subtract(a,b) tan(a) tanh(a) true_divide(a,b) trunc(a) vecdot(a,b)
vecmat(v[:3],s)
"""

OBJECTS = """
mgrid[0:4,0:5]+i
ogrid[0:4,0:5]
r_[v,1,2:4]
c_[v,w]
s_[1:3]
index_exp[1:3]
broadcast(a,b).shape
errstate(all='ignore') is None
finfo(a.dtype).eps*a
iinfo(i.dtype).max
ndenumerate(a).__next__()
ndindex(2,3).__next__()
nditer(a)
poly1d(v)(w)
vectorize(lambda y: y*2)(a)
float32(f)
float64(f)*v
int64(f)
bool_(f)
complex128(f)
float16(f)
dtype('f4').itemsize
matrix(a)
ma.masked_array(a)
emath.sqrt(a)
random.rand(3)
random.default_rng(0).random(3)
datetime64('2012-01-01')
strings.upper('a')
polynomial.polynomial.polyval(v,w)
lib.stride_tricks.sliding_window_view(v,3)
lib.stride_tricks.as_strided(v,(2,4),(16,8))
"""

LINALG = """
cholesky(p) cond(p) cross(s,s.T) det(s) diagonal(s) eig(s) eigh(p) eigvals(s) eigvalsh(p) inv(s) lstsq(a,a[:,0])
matmul(a,b.T) matrix_norm(s) matrix_power(s,3) matrix_rank(s) matrix_transpose(a) multi_dot([s,s,s]) norm(a)
norm(s,2) outer(v,w) pinv(a) qr(s) slogdet(s) solve(s,a[:3,:2]) svd(a) svd(a,full_matrices=False) svdvals(a)
tensordot(a,b.T,axes=1) tensorinv(s,ind=1) tensorsolve(s,v[:3]) trace(s) vecdot(a,b) vector_norm(a)
"""

FFT = """
fft(v) fft2(a) fftfreq(6) fftn(t) fftshift(v) hfft(c[0]) ifft(c) ifft2(c) ifftn(c) ifftshift(a) ihfft(v) irfft(c[0])
irfft2(c) irfftn(c) rfft(v) rfft2(a) rfftfreq(6)*w[:4] rfftn(t)
"""

ATTRIBUTES = """
a.T
t.mT
a.all()
a.any(axis=0)
a.argmax(1)
a.argmin()
v.argpartition(2)
a.argsort()
a.astype(np.float32)
a.base
i.byteswap()
i.choose([a,b,a,b])
a.clip(0,1)
a.compress([True,False,True],axis=0)
c.conj()
c.conjugate()
a.copy()
a.ctypes
a.cumprod(0)
a.cumsum()
a.data
a.device
s.diagonal()
a.dot(b.T)
a.dtype
a.dump('missing')
a.dumps()
a.fill(3);
a.flags.c_contiguous
a.flags.writeable
a.flat[3]
a.flat = 2.0;
a.flat[2:4] = 1.0;
a.flatten()
a.getfield(np.float32)
c.imag
c.imag = a;
a.item(3)
a.itemsize
a.max(axis=0)
a.mean()
a.min()
a.nbytes
a.ndim
m.nonzero()
v.partition(2);
a.prod(axis=1)
a.put([0,2],5.0);
a.ravel()
c.real
c.real = a;
a.repeat(2)
a.reshape(5,4)
a.resize(20);
a.round(1)
g.searchsorted(a)
a.setfield(1.0,np.float64);
a.setflags(write=False);
a.shape
a.shape = (5,4);
a.size
a.sort(axis=0);
a[None].squeeze()
a.std(axis=0)
a.strides
a.sum(1)
t.swapaxes(0,2)
a.take([1,2])
a.to_device('cpu')
a.tobytes()
a.tofile('missing')
a.tolist()
s.trace()
t.transpose(1,0,2)
a.var()
a.view(np.int64)
a.view(np.float32)
"""

DRAWS = """
beta(w,2.0) binomial(5,0.3,4) bit_generator bytes(3) chisquare(2,4) choice(5,3) choice(v,3,replace=False)
dirichlet(w) exponential(w) f(2,3,4) gamma(w) geometric(0.3,4) gumbel(size=3) hypergeometric(5,4,3,size=3)
integers(10,size=(2,3)) integers(10) laplace(v) logistic(v) lognormal(v,0.3) logseries(0.4,3) multinomial(5,[0.2,0.8])
multivariate_hypergeometric([4,5],3) multivariate_normal(v[:3],p) negative_binomial(3,0.4,4) noncentral_chisquare(3,w)
noncentral_f(3,4,w) normal(v,w) normal() pareto(3.0,4) permutation(v) permutation(5) permuted(a,axis=1) poisson(w)
power(w) random((2,3)) random() random(dtype=np.float32,size=3) rayleigh(w) spawn(2) standard_cauchy(3)
standard_exponential(3) standard_gamma(w) standard_normal((2,2)) standard_normal() standard_t(3,4)
triangular(0,1,2,4) uniform(-1,1,(2,2)) uniform(v,v+1) vonmises(v,1.0) wald(w,1.0) weibull(w) zipf(3.0,4)
"""
SHUFFLE = ("r.shuffle(a);", "r.shuffle(a,axis=1);", "r.random(out=v);", "r.permuted(a,axis=0,out=a);")


@record
class Call:
    """`name` as the document lists it, and the program."""

    name: str
    text: str

    @property
    def exists(self) -> bool:
        """Does this version of NumPy have it?"""
        owner: object = {"np": np, "ndarray": np.ndarray, "Generator": np.random.Generator}[self.name.partition(".")[0]]
        for part in self.name.split(".")[1:]:
            owner = getattr(owner, part, None)
        return owner is not None

    @property
    def letters(self) -> list[str]:
        """The arguments, in a fixed order."""
        tree = ast.parse(self.text.rstrip(";"))
        return sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in LETTERS})

    def function(self) -> object:
        """The program as a Python function of its letters."""
        body = self.text[:-1] if self.text.endswith(";") else f"return {self.text}"
        namespace = {"np": np}
        exec(f"def program({', '.join(self.letters)}):\n    {body}\n", namespace)
        return namespace["program"]


LETTERS = frozenset("abcdfgijmnpqrstuvw")


def arguments() -> dict[str, object]:
    """Fresh arguments for every letter."""
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-2, 2, (4, 5)), rng.uniform(0.1, 2, (4, 5))
    s = rng.uniform(-2, 2, (3, 3))
    return {
        "a": a, "b": b, "c": a + 1j * b, "d": a / 2.5, "f": 0.75, "g": np.array([-2.0, -1.0, 0.5, 2.0]),
        "i": rng.integers(0, 4, (4, 5)), "j": np.array([0, 2, 1, 2]), "m": a > 0,
        "n": np.where(rng.uniform(size=(4, 5)) < 0.3, np.nan, a), "p": s @ s.T + np.eye(3),
        "q": np.array([1.0, -3.0, 2.0, 0.5]), "r": np.random.default_rng(11), "s": s,
        "t": rng.uniform(-2, 2, (2, 3, 4)), "u": np.arange(8, dtype=np.uint8), "v": rng.uniform(-2, 2, 6),
        "w": rng.uniform(0.1, 2, 6),
    }  # fmt: skip


def _calls(texts: Iterable[str], title: str, prefix: str = "np.") -> tuple[Call, ...]:
    return tuple(Call(title + _name(text), text if text.startswith("a[") else prefix + text) for text in texts)


def _name(text: str) -> str:
    return "ix_" if "np.ix_" in text else re.match(r"[\w.]*", text)[0].rstrip(".")  # type: ignore[index]


def _methods(texts: Iterable[str]) -> tuple[Call, ...]:
    """Attributes of an array: the first name after the letter."""
    return tuple(Call("ndarray." + re.search(r"\.(\w+)", text)[1], text) for text in texts)  # type: ignore[index]


SECTIONS: dict[str, tuple[Call, ...]] = {
    "Universal functions": _calls(UFUNCS.split(), "np."),
    "Functions": _calls(FUNCTIONS.strip().splitlines(), "np."),
    "Other objects": _calls(OBJECTS.strip().splitlines(), "np."),
    "numpy.linalg": _calls(LINALG.split(), "np.linalg.", "np.linalg."),
    "numpy.fft": _calls(FFT.split(), "np.fft.", "np.fft."),
    "ndarray": _methods(ATTRIBUTES.strip().splitlines()),
    "numpy.random.Generator": (
        *_calls(DRAWS.split(), "Generator.", "r."),
        *(Call("Generator." + text[2:].partition("(")[0], text) for text in SHUFFLE),
    ),
}
