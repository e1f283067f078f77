"""Calls whose dtype, shape or refusal is easy to get wrong: the compiled function gives NumPy's result or exception."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from numbers import Number

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning
from tests.support import same

RESULTS = """
np.sinc(h) np.sinc(x*np.array([0.0,1e-30,np.nan])) np.sinc(i*0)
np.angle(m) np.angle(j)
np.average(i,returned=True) np.average(a,axis=0,returned=True)
np.average(t,axis=(0,2),weights=a[:2,:4]) np.average(t,axis=(2,0),weights=a[:4,:2])
np.linspace(0,x,1,retstep=True) np.linspace(v,w,0,retstep=True)
np.array([y,1.5]) np.array([y,1]) np.array([u[0],1]) np.array([j[0],1]) np.array([[j[0],1],[j[1],True]])
np.array([y,1.5],np.float32) f*[y,1.5,1] np.stack([y,1.5]) np.stack([j[0],1])
np.concatenate([v,w],dtype=np.int32,casting='unsafe') np.vstack([v,w],dtype=np.int64,casting='unsafe')
np.linalg.diagonal(t) np.linalg.diagonal(t,offset=1) np.linalg.trace(t) np.linalg.trace(t,offset=-1)
np.matmul(a,a.T,dtype=np.complex128) np.vecdot(v,w,dtype=np.complex128) np.add(v,w,dtype=np.int32,casting='unsafe')
np.choose(i,[v],mode='clip') np.choose(i,[5],mode='clip') np.choose(i,[j[:3],f,v],mode='wrap')
np.select([m,v>0],[f,1.5],0) np.select([m,v>0],[f,j[:3]],0)
z*[1,2] np.array(2)*[v,w]
m**2 m[0]**2 m**3 1j*x (1j*x)*f x*1j 1j*y 1j-x 1j/x
np.einsum(',i->i',2.0,f) np.einsum('i,i->i',f,f,out=np.zeros(3))
np.apply_along_axis(np.sum,0,v) np.apply_along_axis(lambda*p:[p[0].sum(),1],0,a)
np.apply_along_axis(lambda*p:np.outer(p[0],p[0]),1,a)
np.add.outer(f,1.0) repr(a.shape) f'{v.shape}' repr(np.zeros(2)) v.flags.c_contiguous
np.int8(i[0]*200) np.int8(int(i[0])*20) np.uint8(int(i[0])+3)
(1j*x).real*f (1j*x).imag float(x).imag*f complex(c[0]).conjugate()
(type(x)is(np.float64)) (type(v[0])is(np.float64))
(type(True)is(bool)) (type(1.5)is(float)) (type(2)is(int)) np.float64==v.dtype {np.float64:1}[v.dtype.type]
np.piecewise(v,v>0,[1,-1]) np.piecewise(v,[m,~m],[1,lambda*p:p[0]*2])
np.shares_memory(v,v[1:]) np.shares_memory(v,v.copy()) np.shares_memory(v,v[:0]) np.min_scalar_type(i)
"""
REFUSALS = """
np.ediff1d(m)
np.isposinf(c) np.isneginf(c)
np.average(v,weights=v.reshape(3,1)) np.average(v,weights=[1.0]) np.average(a,axis=0,weights=a[:,:1])
np.average(a[:0],axis=1)
np.cov(v,w,ddof=1.5)
np.linspace(0,x,-1)
np.meshgrid(v,w,indexing='yx')
np.triu(z)
np.array(i,dtype=np.float32,copy=False) np.array(x,copy=False)
np.concatenate([v,w],dtype=np.int32) np.stack([v,w],dtype=np.int64) np.hstack([v,w],dtype=np.int64)
np.concatenate([v,w],out=np.empty(6,np.int32)) np.concatenate([v,w],dtype=np.float32,casting='safe')
np.vsplit(v,3) np.hsplit(z,1) np.dsplit(a,2)
np.linalg.cross(v[:2],w[:2]) np.linalg.outer(a,v)
np.matvec(v,v) np.vecmat(v,v)
np.add(f,v,casting='no') np.matmul(v,w,casting='no',dtype=np.float32)
np.sum(v,where=i) np.any(v,where=i) np.add(v,1,where=i,out=w) np.max(v,where=f,initial=0)
np.take_along_axis(v,m,0) np.take_along_axis(v,f,None) np.put_along_axis(v,m,0,0)
np.choose(f,[v,w],mode='clip') np.choose(u,[v,w],mode='clip')
np.select([i],[v]) np.select([],[])
np.copyto(v,w,where=i) np.copyto(v,w,where=m[:,None])
np.putmask(a,a[0]>0,0) np.putmask(i,m,v) np.place(i,m,v[:1])
np.resize(v,-1)
x*[1,2] [1,2]*y m[0]*(1,2)
np.einsum('i->i',v,out=np.zeros(3,'f4')) np.einsum('i,i->i',v,w,dtype=np.float32)
np.add.accumulate(z)
j.__setitem__(0,i[0]*100) j.fill(i[0]*100) np.array([i[0]*100,1],np.int8) i.__setitem__(0,u[2]+np.uint64(2**63))
np.int8(int(i[0])*200) np.uint8(int(i[1])-1) np.int8(float(x)*200) np.int64(float(x)*1e30)
np.piecewise(a,a>0,[1,-1])
np.sum(a,axis=[0,1]) np.max(c,axis=[0])
a.__imatmul__(v)
"""

STORES = """
np.prod(i+99991**3,out=np.zeros(())) np.cumprod(i+99991**3,out=np.zeros(3))
np.multiply.reduce(i+99991**3,out=np.zeros(()))
np.sum(f/3,out=np.zeros(())) np.cumsum(f/3,out=np.zeros(3)) np.mean(f/3,out=np.zeros(()))
np.max(j,out=np.zeros((),'u1'))
np.round(f/3,1,out=np.zeros(3)) np.std(f/3,out=np.zeros(())) np.ptp(a,axis=0,out=np.zeros(4,'f4'))
np.sum(i,out=np.zeros((),'i2')) np.any(a,axis=0,out=np.zeros(4)) np.outer(v,w,out=np.zeros((3,3),'f4'))
np.dot(a,a,out=np.zeros((4,4),'f4')) np.outer(v,w,out=np.zeros((3,3),int)) np.take(f,[0,1],out=np.zeros(2))
np.argmax(a,axis=0,out=np.zeros(4)) np.trunc(v,out=np.zeros(3,int)) np.fix(v,out=np.zeros(3,'f4'))
"""


def arguments() -> dict[str, object]:
    """What the letters stand for."""
    rng = np.random.default_rng(5)
    return {
        "a": rng.standard_normal((4, 4)), "c": np.array([1 + 2j, np.inf, -3j]), "f": np.array([0.5, -1, 2], "f4"),
        "h": np.array([0, 1, 2.5], "f2"), "i": np.array([2, 0, 1]), "j": np.array([-128, 5, 7], "i1"),
        "m": np.array([True, False, True]), "t": rng.standard_normal((2, 3, 4)), "u": np.array([0, 1, 2], "u8"),
        "v": rng.standard_normal(3), "w": rng.standard_normal(3), "x": np.float64(1.5), "y": np.float32(2.5),
        "z": np.array(2.5),
    }  # fmt: skip


def outcome(text: str, compiled: bool) -> tuple[object, list[object]]:
    """What the call gives or raises, and its arguments after it."""
    given = arguments()
    letters = [k for k in given if re.search(rf"(?<![\w.']){k}(?![\w'(])", text)]
    names = {"np": np}
    exec(f"def program({', '.join(letters)}):\n    return {text}", names)
    program = names["program"]
    values = [given[k] for k in letters]
    try:
        return (numstax.jit(program) if compiled else program)(*values), values
    except Exception as error:
        return error, values


@pytest.mark.parametrize("text", RESULTS.split())
def test_result_is_that_of_numpy(text: str) -> None:
    (got, ours), (want, theirs) = outcome(text, compiled=True), outcome(text, compiled=False)
    if isinstance(got, Exception):
        raise got
    same(got, want, ulps=64)
    same(ours, theirs, where="arguments")


@pytest.mark.parametrize("text", REFUSALS.split())
def test_refusal_is_that_of_numpy(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        (got, ours), (want, theirs) = outcome(text, compiled=True), outcome(text, compiled=False)
    assert isinstance(want, Exception)
    kinds = [kind for kind in type(want).__mro__ if kind.__module__ == "builtins"]
    assert isinstance(got, kinds[0]), got
    same(ours, theirs, where="arguments")


@pytest.mark.parametrize("text", STORES.split())
def test_out_of_another_dtype(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        (got, ours), (want, theirs) = outcome(text, compiled=True), outcome(text, compiled=False)
    if isinstance(want, Exception):
        assert isinstance(got, TypeError if isinstance(want, TypeError) else ValueError)
    else:
        same(got, want, ulps=64 if got.dtype.kind == "f" and got.dtype.itemsize == 4 else 2)
    same(ours, theirs, where="arguments")


def test_an_integer_repeats_a_list() -> None:
    def program(k: np.int64, v: np.ndarray) -> tuple[list[int], list[np.ndarray]]:
        return k * [1, 2], [v] * k

    with pytest.warns(NumstaxWarning, match="a list is as long as"):
        same(numstax.jit(program)(np.int64(2), np.ones(2)), program(np.int64(2), np.ones(2)))


@pytest.mark.parametrize("write", ["repr(v)", "f'{v!r}'", "str([v])"])
def test_text_is_that_of_the_values(write: str) -> None:
    with pytest.warns(NumstaxWarning, match="text takes the value"):
        got, _ = outcome(write, compiled=True)
    assert got == outcome(write, compiled=False)[0]


def test_the_shape_in_a_text_is_that_of_the_call() -> None:
    program = numstax.jit(lambda x: (x * 2, f"{x.shape}"), dynamic=True)
    assert [program(np.ones(n))[1] for n in (3, 5)] == ["(3,)", "(5,)"]


def test_classes_are_identical() -> None:
    def program(x: np.ndarray) -> tuple[bool, bool]:
        return x.dtype.type is np.float32, x.dtype.type is not np.float32

    assert [numstax.jit(program)(np.ones(2, dtype)) for dtype in "fd"] == [(True, False), (False, True)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_questions_about_classes(dynamic: bool) -> None:
    def program(x: np.ndarray, k: np.int64, f: float) -> list[bool]:
        values = (x, x[0], k, f, len(x), x.sum() > 1)
        kinds = (Iterable, Sized, Hashable, Callable, Sequence, Number, int | float, np.generic, (list, np.ndarray))
        names = ("__len__", "__iter__", "__call__", "__index__", "__float__", "__name__", "shape", "storage", "real")
        is_of = [isinstance(value, kind) for value in values for kind in kinds]
        return is_of + [hasattr(value, name) for value in values for name in names]

    args = np.ones(3), np.int64(2), 2.5
    same(numstax.jit(program, strict=True, dynamic=dynamic)(*args), program(*args))


def test_a_number_lacks_an_attribute() -> None:
    def program(x: np.float64) -> object:
        try:
            return x.size_of
        except AttributeError as error:
            return str(error)

    assert numstax.jit(program)(np.float64(1)) == "'numpy.float64' object has no attribute 'size_of'"


def test_the_program_reads_the_text_of_numpy() -> None:
    def program(x: np.ndarray) -> object:
        try:
            return x.reshape(7)
        except ValueError as error:
            return str(error)

    assert numstax.jit(program)(np.ones(3)) == "cannot reshape array of size 3 into shape (7,)"


def test_a_scalar_type_gives_the_array_itself() -> None:
    def program(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x, y = np.float32(x), np.float32(y)
        x -= 1
        y -= 1
        return x, y

    x, y = np.ones(3, np.float32), np.ones(3)
    got = numstax.jit(program, strict=True)(x, y)
    assert [np.shares_memory(*pair) for pair in zip(got, (x, y), strict=True)] == [True, False]
    same((x, y), (np.zeros(3, np.float32), np.ones(3)))


def test_a_flag_is_set() -> None:
    def program(x: np.ndarray) -> np.ndarray:
        x.flags.writeable = False
        return x

    with pytest.warns(NumstaxWarning, match="setflags"):
        assert not numstax.jit(program)(np.ones(3)).flags.writeable


def test_disjoint_parts_share_no_memory() -> None:
    def program(x: np.ndarray) -> bool:
        return np.shares_memory(x[:2], x[2:])

    with pytest.warns(NumstaxWarning, match="not known while tracing"):
        assert not numstax.jit(program)(np.arange(4.0))
