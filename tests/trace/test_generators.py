"""Random numbers in compiled functions: the numbers of NumPy, and the state of NumPy afterwards."""

import numpy as np
import pytest

import numstax
from numstax.errors import SideEffectError, TraceError, UnsupportedOperationError
from tests.support import same

CAPTURED = np.random.default_rng(5)


def several(rng, x):
    first = rng.normal(size=3)
    rng.random()  # not used, but drawn
    again = rng.normal(size=3)
    return first + again * x, rng.integers(10), rng.random(), rng.permutation(x)


def test_each_call_draws_anew_as_numpy_does():
    compiled = numstax.jit(several, strict=True)
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(3):
        same(compiled(ours, np.arange(3.0)), several(theirs, np.arange(3.0)))
    assert ours.bit_generator.state == theirs.bit_generator.state
    compiled(np.random.default_rng(2), np.arange(3.0))
    assert compiled.compile_count == 1


def test_generator_of_another_kind():
    compiled = numstax.jit(several, strict=True)
    ours, theirs = (np.random.Generator(np.random.MT19937(3)) for _ in range(2))
    same(compiled(ours, np.arange(3.0)), several(theirs, np.arange(3.0)))
    same(ours.random(), theirs.random())


def test_two_generators_and_the_same_one_twice():
    def program(r, s, x):
        return r.random() - s.random() + r.random(), s.normal(x)

    compiled = numstax.jit(program, strict=True)
    x = np.arange(3.0)
    ours, theirs = ([np.random.default_rng(k) for k in (1, 2)] for _ in range(2))
    same(compiled(*ours, x), program(*theirs, x))
    same(compiled(ours[0], ours[0], x), program(theirs[0], theirs[0], x))


def test_captured_generator():
    def program(x):
        return CAPTURED.normal(size=x.shape) + x

    compiled = numstax.jit(program, strict=True)
    state = CAPTURED.bit_generator.state
    got = [compiled(np.zeros(4)) for _ in range(3)]
    CAPTURED.bit_generator.state = state
    same(got, [program(np.zeros(4)) for _ in range(3)])


def test_generator_held_by_an_object():
    class Walk:
        def __init__(self):
            self.rng = np.random.default_rng(3)

        def step(self, x):
            return x + self.rng.normal(size=2)

    walk = Walk()

    def program(x):
        return walk.step(walk.step(x))

    got = numstax.jit(program, strict=True)(np.zeros(2))
    walk.rng = np.random.default_rng(3)
    same(got, program(np.zeros(2)))


def seeded(seed, x):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(x.shape)
    rng.shuffle(y)
    return y * x + rng.uniform(), rng.integers(5, size=3, dtype=np.int32), rng.integers(5, dtype=np.int32)


def test_generator_seeded_inside():
    compiled = numstax.jit(seeded, strict=True)
    for seed in (1, 2, 1):
        same(compiled(seed, np.ones((2, 3))), seeded(seed, np.ones((2, 3))))


def test_generator_seeded_by_a_run_time_value():
    compiled = numstax.jit(seeded, strict=True)
    for seed in (1, 2):
        same(compiled(np.int64(seed), np.ones(4)), seeded(np.int64(seed), np.ones(4)))
    assert compiled.compile_count == 1


def test_sizes_that_vary():
    def program(rng, x):
        return rng.normal(size=x.shape[0]) + x, rng.random((x.shape[0], 2)).sum(0)

    compiled = numstax.jit(program, strict=True, dynamic=True)
    for n in (5, 7, 9):
        same(compiled(np.random.default_rng(n), np.ones(n)), program(np.random.default_rng(n), np.ones(n)), ulps=4)
    assert compiled.compile_count == 1


def test_numpy_takes_over_with_the_same_numbers():
    """The size of the second result is another one than when traced, so NumPy runs the call."""

    def program(rng, x):
        y = x + rng.random(len(x))
        return y, np.real_if_close(y + 1j * np.round(x))

    compiled = numstax.jit(program, strict=True)
    same(compiled(np.random.default_rng(1), np.zeros(3)), program(np.random.default_rng(1), np.zeros(3)))
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    same(compiled(ours, np.ones(3)), program(theirs, np.ones(3)))
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize(
    ("program", "error", "text"),
    [
        (lambda x: np.random.rand(3) + x, SideEffectError, "numpy.random.rand"),
        (lambda x: np.random.seed(0), SideEffectError, "pass a numpy.random.Generator"),
        (lambda x: np.random.default_rng().random(3) + x, UnsupportedOperationError, "without a seed"),
        (lambda x: np.random.default_rng(0).bit_generator, UnsupportedOperationError, "Generator.bit_generator"),
        (lambda x: np.random.default_rng(0).shuffle([x, x]), UnsupportedOperationError, "shuffle of a list"),
    ],
)
def test_refused_by_name(program, error, text):
    with pytest.raises(error, match=text):
        numstax.jit(program, strict=True)(np.ones(3))


def test_legacy_function_taken_by_name():
    rand = np.random.rand

    def program(x):
        return rand(3) + x

    with pytest.raises(SideEffectError, match=r"random\.Generator"):
        numstax.jit(program, strict=True)(np.ones(3))


def test_exported_functions_have_generators_of_their_own():
    with pytest.raises(TraceError, match="seed one inside"):
        numstax.export(lambda x: CAPTURED.normal(size=3) + x, (np.ones(3),))

    def program(x):
        return np.random.default_rng(4).normal(size=3) + x

    same(numstax.export(program, (np.ones(3),))(np.ones(3)), program(np.ones(3)))


@pytest.mark.parametrize("seeded", [False, True])
def test_draws_in_a_captured_loop(seeded):
    def program(rng, x, steps):
        if seeded:
            rng = np.random.default_rng(4)
        for _ in range(steps):
            x = x + rng.normal(size=x.shape)
        return x, rng.random()

    compiled = numstax.jit(program, strict=True)
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(2):
        same(compiled(ours, np.arange(3.0), 100), program(theirs, np.arange(3.0), 100))
    assert ours.bit_generator.state == theirs.bit_generator.state
