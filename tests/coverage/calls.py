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

FUNCTIONS = """
all(m,axis=0)
allclose(a,b)
amax(a)
amin(a,axis=1)
angle(c)
any(m)
append(a,b,axis=0)
apply_along_axis(np.sum,0,a)
apply_over_axes(np.sum,t,[0,2])
arange(a.shape[0])
argmax(a,axis=1)
argmin(a)
argpartition(v,2)
argsort(a,axis=0)
argwhere(m)
around(a,1)
array([a,b])
array2string(a)
array_equal(a,b)
array_equiv(a,a[:1])
array_repr(a)
array_split(v,4)
array_str(a)
asanyarray(a)
asarray(a)
asarray_chkfinite(a)
ascontiguousarray(a.T)
asfortranarray(a)
asmatrix(a)
astype(a,np.float32)
atleast_1d(v)
atleast_2d(v)
atleast_3d(v)
average(a,axis=0,weights=b[:,0])
bartlett(5)*v[:5]
base_repr(5)
binary_repr(5)
bincount(j)
bincount(j,minlength=6)
blackman(6)*v
block([[a,b],[b,a]])
bmat([[a,b]])
broadcast_arrays(a,a[0])
broadcast_shapes((4,1),a.shape)
broadcast_to(v,(2,6))
busday_count('2011-01','2011-02')
busday_offset('2011-10',0,roll='forward')
can_cast(a.dtype,np.float32)
choose(i,[i,a,b,i])
clip(a,0,1)
column_stack([v,w])
common_type(a,c)
compress([True,False,True,True],a,axis=0)
concat([a,b])
concatenate([a,b],axis=1)
convolve(v,w[:3])
copy(a)
copyto(a,b);
copyto(a,b,where=m);
corrcoef(a)
correlate(v,w[:3])
count_nonzero(m)
cov(a)
cross(a[:,:3],b[:,:3])
cumprod(a,axis=0)
cumsum(a)
cumulative_prod(v)
cumulative_sum(a,axis=1,include_initial=True)
datetime_as_string(np.datetime64('2012'))
datetime_data('M8[D]')
delete(a,1,axis=0)
delete(a,[0,2],axis=1)
delete(v,slice(1,3))
diag(v)
diag_indices(3)
diag_indices_from(s)
diagflat(s,1)
diagonal(a)
diff(a,axis=0)
digitize(a,g)
dot(a,b.T)
dsplit(t,2)
dstack([a,b])
ediff1d(v)
ediff1d(v,to_begin=0.0,to_end=w[:2])
einsum('ij,kj->ik',a,b)
einsum_path('ij,jk->ik',a,b.T)
empty((2,3)).shape
empty_like(a).shape
expand_dims(a,1)
extract(m,a)
eye(3)@s
fill_diagonal(s,7);
fix(a)
flatnonzero(m)
flip(a)
fliplr(a)
flipud(a)
format_float_positional(0.5)
format_float_scientific(0.5)
from_dlpack(a)
frombuffer(b'12345678',np.uint8)
fromfile('missing')
fromfunction(lambda k,l: k+l,(3,3))*s
fromiter((k for k in range(6)),float)*v
frompyfunc(lambda y: y,1,1)(a)
fromregex('missing','x',float)
fromstring('1 2',sep=' ')
full((2,6),v)
full_like(a,3)
genfromtxt(['1 2'])
geomspace(1,1000,6)*v
geomspace(b[0],b[1],5)
get_include()
get_printoptions()
getbufsize()
geterr()
geterrcall()
gradient(a)
gradient(a,axis=1,edge_order=2)
hamming(6)*v
hanning(6)*v
histogram(a,g)
histogram(a,bins=5,range=(-2,2))
histogram(a,bins=5)
histogram2d(v,w,[g,g])
histogram_bin_edges(v,5)
histogramdd(a[:,:2],[g,g])
hsplit(t,3)
hstack([a,b])
i0(a)
identity(3)@s
imag(c)
indices((4,5))+i
inner(a,b)
insert(a,1,b[0],axis=0)
insert(v,[1,2],w[:2])
interp(a,g,g*2)
intersect1d(i,j)
is_busday('2012-01-01')
isclose(a,b)
iscomplex(c)
iscomplexobj(c)
isdtype(a.dtype,'real floating')
isfortran(a)
isin(i,j)
isneginf(n)
isposinf(n)
isreal(c)
isrealobj(a)
isscalar(f)
issubdtype(a.dtype,np.floating)
iterable(a)
ix_(j,j)
a[np.ix_([0,2],[1,3])]
kaiser(6,3)*v
kron(s,s)
lexsort((j,j[::-1]))
linspace(0,1,6)*v
linspace(a[0],b[0],4)
load('missing')
loadtxt(['1 2'])
logspace(0,2,6)*v
mask_indices(3,np.triu)
matrix_transpose(t)
max(a,axis=0)
may_share_memory(a,b)
mean(a,axis=0)
median(a,axis=1)
meshgrid(v,w)
min(a)
min_scalar_type(5)
mintypecode(['d','f'])
moveaxis(t,0,-1)
nan_to_num(n)
nanargmax(n,axis=1)
nanargmin(n)
nancumprod(n)
nancumsum(n,axis=0)
nanmax(n)
nanmean(n,axis=0)
nanmedian(n,axis=0)
nanmin(n)
nanpercentile(n,30,axis=0)
nanprod(n)
nanquantile(n,0.4)
nanstd(n)
nansum(n)
nanvar(n)
ndim(a)
nested_iters(a,[[0],[1]])
nonzero(m)
ones((4,5))+a
ones_like(a)
outer(v,w)
packbits(m)
pad(a,1,mode='edge')
pad(a,((1,2),(0,1)),mode='linear_ramp')
partition(v,3)
percentile(a,[10,50],axis=0)
percentile(a,75)
permute_dims(t,(1,0,2))
piecewise(a,[a<0,a>=0],[-1,1])
piecewise(a,[a<0,a>=0],[lambda y: -y,lambda y: y*2])
place(a,m,[1.0,2.0]);
place(a,m,0.0);
poly(v)
polyadd(v,w[:3])
polyder(v)
polydiv(v,w[:3])
polyfit(v,w,2)
polyint(v)
polymul(v,w[:3])
polysub(v,w[:3])
polyval(v,a)
printoptions(precision=3)
prod(a,axis=0)
promote_types(a.dtype,np.int32)
ptp(a,axis=0)
put(a,[0,3],[1.0,2.0]);
put_along_axis(a,i[:,:1],7.0,1);
putmask(a,m,b);
putmask(a,m,w[:2]);
quantile(a,0.3,axis=1)
ravel(a)
ravel_multi_index((j,j),(4,5))
real(c)
real_if_close(c)
repeat(a,2,axis=0)
require(a)
reshape(a,(5,4))
resize(a,(3,3))
result_type(a,i)
roll(a,1,axis=0)
rollaxis(t,2)
roots(q)
rot90(a)
round(a,2)
row_stack([v,w])
save('missing',a)
savetxt('missing',a)
savez('missing',a)
savez_compressed('missing',a)
searchsorted(g,a)
select([a<0,a>1],[b,a],0.5)
set_printoptions(precision=3)
setbufsize(16384)
setdiff1d(i,j)
seterr(all='ignore')
seterrcall(None)
setxor1d(i,j)
shape(a)
shares_memory(a,b)
show_config()
test()
info(np.sum)
show_runtime()
sinc(a)
size(a)
sort(a,axis=0)
sort_complex(c[0])
split(v,3)
squeeze(a[None])
stack([a,b])
std(a)
sum(a,axis=1)
swapaxes(t,0,1)
take(a,j,axis=0)
take_along_axis(a,i,1)
tensordot(a,b.T,1)
tile(a,2)
trace(s)
transpose(t)
trapezoid(a,dx=0.5)
tri(3)@s
tril(a)
tril_indices(3)
tril_indices_from(s)
trim_zeros(i[0])
triu(a)
triu_indices(3)
triu_indices_from(s)
typename('d')
union1d(i,j)
unique(i)
unique(i,return_counts=True)
unique_all(i)
unique_counts(i)
unique_inverse(i)
unique_values(i)
unpackbits(u)
unravel_index(j,(4,5))
unstack(a)
unwrap(v)
vander(v,3)
var(a,axis=0)
vdot(v,w)
vsplit(a,2)
vstack([a,b])
where(m,a,b)
where(m)
zeros((4,5))+a
zeros_like(a)
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
