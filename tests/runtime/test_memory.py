"""memory: addresses, and that pooled memory is never handed out while anybody can see it."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numstax.dtypes import BFLOAT16, FLOAT32, FLOAT64
from numstax.runtime.memory import PAGE, SMALL, Pool, address_of, size_class

BIG = (SMALL,)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(()),
        np.zeros((0, 3)),
        np.arange(12.0)[::-2],
        np.zeros(3, BFLOAT16),
        np.zeros(13, np.uint8)[1:].view(np.float32),
        np.broadcast_to(np.float32(3), (2, 2)),
    ],
)
def test_address(array):
    assert address_of(array) == array.ctypes.data


@given(st.integers(SMALL, 1 << 45))
def test_size_class_wastes_at_most_a_quarter(n):
    assert n <= size_class(n) <= n + n // 4 + PAGE
    assert size_class(size_class(n)) == size_class(n)


@pytest.mark.parametrize("dtype", [FLOAT32, BFLOAT16])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5), (300, 500)])
def test_arrays_look_fresh(shape, dtype):
    array = Pool(1 << 30).empty(shape, dtype)
    assert (array.shape, array.dtype) == (shape, dtype)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    assert array.flags.aligned
    if array.nbytes >= SMALL:
        assert address_of(array) % PAGE == 0


def test_memory_is_reused_once_nobody_sees_it():
    pool = Pool(1 << 30)
    first = pool.empty(BIG, FLOAT32)
    place = address_of(first)
    assert address_of(pool.empty(BIG, FLOAT32)) != place
    del first
    assert place in {
        address_of(a) for a in (pool.empty(BIG, FLOAT64), pool.empty(BIG, FLOAT32), pool.empty(BIG, FLOAT32))
    }


HOLDERS = {
    "slice": lambda a: a[5:6],
    "view of a view": lambda a: a[::2].view(np.int32)[3:].reshape(-1, 1).T,
    "memoryview": memoryview,
    "memoryview of a view": lambda a: memoryview(a[7:])[2:],
    "flat iterator": lambda a: a.flat,
    "buffer": lambda a: np.frombuffer(a, np.uint8),
    "interface": lambda a: np.asarray(_Interface(a)),
    "ctypes": lambda a: a.ctypes.data_as(np.ctypeslib.ndpointer()),
    "dlpack": np.from_dlpack,
    "strided": lambda a: np.lib.stride_tricks.as_strided(a, (3,), (8,)),
    "list": lambda a: [a],
    "cycle": lambda a: _cycle(a),
    "subclass": lambda a: a.view(np.recarray),
    "masked": np.ma.masked_array,
}


class _Interface:
    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def _cycle(array):
    ring = [array]
    ring.append(ring)
    return ring


@pytest.mark.parametrize("how", HOLDERS)
def test_no_reuse_while_visible_through(how):
    pool = Pool(1 << 30)
    array = pool.empty(BIG, FLOAT32)
    place = address_of(array)
    holder = HOLDERS[how](array)
    del array
    others = [pool.empty(BIG, FLOAT32) for _ in range(4)]
    assert place not in {address_of(a) for a in others}
    del others, holder
    gc.collect()
    assert place in {address_of(a) for a in [pool.empty(BIG, FLOAT32) for _ in range(5)]}


def test_capacity_bounds_what_is_kept():
    pool = Pool(8 * SMALL)
    held = [pool.empty((k * SMALL // 4,), FLOAT32) for k in (1, 2, 3, 1, 2, 3, 1)]
    assert pool.kept <= pool.capacity
    for k, array in enumerate(held):
        array[:] = k
    pool.empty((16 * SMALL,), FLOAT64)
    assert pool.kept <= pool.capacity
    assert all((array == k).all() for k, array in enumerate(held))


def test_threads_never_share_visible_memory():
    pool = Pool(1 << 24)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        kept = []
        for step in range(300):
            array = pool.empty((int(rng.integers(SMALL // 4, SMALL)),), FLOAT32)
            array[:] = seed * 1000 + step
            kept.append((array[3:], seed * 1000 + step))
            if len(kept) > 3:
                view, value = kept.pop(int(rng.integers(4)))
                if not (view == value).all():
                    wrong.append((seed, value))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
