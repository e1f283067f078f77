"""Draws that programs make: NumPy's numbers to the last bit, and the state that NumPy leaves."""

import threading
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import numstax
from numstax.emit.draws import FACTOR_HIGH, FACTOR_LOW
from numstax.emit.ziggurat import ziggurat
from numstax.program import ExternCall, all_steps
from numstax.trace import draws

METHODS = ("random", "standard_normal", "standard_exponential")
DTYPES = ("float64", "float32")
KNOWN = ("PCG64", "PCG64DXSM")
OTHERS = ("MT19937", "Philox", "SFC64")


def library_calls(compiled):
    plans = [artifact.region.plan for artifact in compiled.artifacts()]
    return [step for plan in plans for step in all_steps(plan.steps) if isinstance(step, ExternCall)]


def agrees(program, *args, calls=2, kind="PCG64", by_programs=True):
    """Are results and states bit for bit those of NumPy?"""
    compiled = numstax.jit(program, strict=True)
    ours, theirs = (np.random.Generator(getattr(np.random, kind)(11)) for _ in range(2))
    for _ in range(calls):
        got, want = compiled(ours, *args), program(theirs, *args)
        for a, b in zip(_parts(got), _parts(want), strict=True):
            assert type(a) is type(b)
            assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
    assert by_programs is (not library_calls(compiled))
    return compiled


def _parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KNOWN)
def test_sizes(method, dtype, kind):
    def program(rng):
        draw = getattr(rng, method)
        sizes = (None, (), 0, 1, (3, 0), (2, 3), 5, 4001)
        return tuple(draw(size, dtype) for size in sizes)

    agrees(program, kind=kind)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_many(method, dtype):
    """Tails, and points that are rejected, are among them."""
    agrees(lambda rng: getattr(rng, method)((1000, 5000), dtype), calls=2)


def test_half_a_word_that_is_left():
    def program(rng, x):
        a = rng.random(3, np.float32)
        b = rng.standard_normal(4)
        c = rng.standard_normal(2, np.float32)
        return a, b, c, rng.random(dtype="f4"), rng.standard_exponential(3, np.float32), rng.random() + x

    agrees(program, np.ones(3), calls=5)


def test_between_draws_of_numpy():
    def program(rng, x):
        a = rng.standard_normal(3)
        b = rng.integers(0, 10, 3, np.int16), rng.permutation(x)
        return a, *b, rng.random(3, np.float32), rng.gamma(2.0), rng.random(2)

    compiled = agrees(program, np.arange(4.0), by_programs=False)
    assert len(library_calls(compiled)) == 3
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    for rng, run in ((ours, compiled), (theirs, program)):
        rng.integers(5, dtype=np.int32)
        run(rng, np.ones(2))
        rng.random(dtype=np.float32)
    assert ours.bit_generator.state == theirs.bit_generator.state


def test_integers():
    def program(rng):
        several = (
            rng.integers(10, size=1001), rng.integers(-3, 4, (3, 5)), rng.integers(7), rng.integers(5, 6, 4),
            rng.integers(0, 1), rng.integers(0, 9, endpoint=True), rng.integers(3, 3, 5, endpoint=True),
            rng.integers(1 << 32, size=5), rng.integers(-(1 << 63), 3_000_000_000 - (1 << 63), 999),
            rng.integers(2, size=0),
        )  # fmt: skip
        wide = tuple(rng.integers(3, 3_221_225_472, 500, dtype) for dtype in (np.uint32, np.uint64, "i8", int))
        signed = rng.integers(-(1 << 31), (1 << 31) - 1, 501, np.int32, True), rng.integers(-5, 5, dtype=np.int32)
        return *several, *wide, *signed, rng.integers(3, dtype=int), rng.random(3), rng.integers(4, size=3)

    agrees(program)


def test_integers_that_numpy_draws():
    def program(rng, n):
        large = rng.integers((1 << 32) + 1, size=3), rng.integers(-(1 << 63), (1 << 63) - 1, 3)
        small = rng.integers(9, size=3, dtype=np.int8), rng.integers(2, size=3, dtype=bool)
        return *large, *small, rng.integers(n), rng.integers([3, 4, 5]), rng.integers(5, size=2)

    agrees(program, np.int64(7), by_programs=False)


def test_integers_below_a_counter():
    def shuffled(rng, x):
        x = x.copy()
        for i in range(len(x) - 1, 0, -1):
            j = rng.integers(0, i + 1)
            x[i], x[j] = x[j], x[i]
        return x

    agrees(shuffled, np.arange(100.0))


def test_no_integers_to_draw_from():
    def program(rng, x):
        for i in range(len(x)):
            x[i] += rng.integers(0, len(x) - 1 - i)
        return x

    compiled = numstax.jit(program)
    with pytest.raises(ValueError, match="high <= 0"):
        program(np.random.default_rng(1), np.zeros(50))
    with pytest.raises(ValueError, match="high <= 0"):
        compiled(np.random.default_rng(1), np.zeros(50))


@pytest.mark.parametrize(("dtype", "fits", "large"), [(np.uint64, 20, 5), (np.uint32, 20, 5), (np.int32, 20, 1 << 32)])
def test_a_range_for_all_sizes_may_not_fit_the_dtype(dtype, fits, large):
    def program(rng, n):
        return rng.integers(n - 10, n, 4, dtype=dtype)

    compiled = numstax.jit(program, strict=True, dynamic=True)
    np.testing.assert_array_equal(
        compiled(np.random.default_rng(0), fits), program(np.random.default_rng(0), fits), strict=True
    )
    for _ in range(2):
        with pytest.raises(ValueError, match="out of bounds"):
            compiled(np.random.default_rng(0), large)


def test_draws_in_loops_and_branches():
    def walk(rng, n, x):
        low = high = 0
        for i in range(n):
            if rng.random() < 0.25:
                x = x + rng.standard_normal()
                low += 1
            else:
                noise = rng.random(x.shape, np.float32)
                x = x - noise * rng.standard_exponential()
                high += i
        return x, low, high

    agrees(walk, 300, np.zeros(7))


def test_loops_that_numpy_takes_part_in():
    def program(rng, x):
        for _ in range(60):
            x = x + rng.standard_normal(3)
            if rng.random() < 0.3:
                x = np.sort(x) + rng.poisson(2.0)
            x = x - rng.exponential(2.0, 3)
        return x, rng.integers(5)

    agrees(program, np.zeros(3), by_programs=False)


def test_two_generators_in_a_loop():
    def program(r, s, x):
        for _ in range(40):
            x = x + r.random(3) * s.standard_normal()
            if x[0] > 3:
                x = x - s.random(3, np.float32)
        return x

    compiled = numstax.jit(program, strict=True)
    pairs = [[np.random.Generator(bits) for bits in (np.random.PCG64(1), np.random.PCG64DXSM(2))] for _ in range(2)]
    results = [run(*pair, np.ones(3)) for run, pair in zip((compiled, program), pairs, strict=True)]
    assert results[0].tobytes() == results[1].tobytes()
    assert [g.bit_generator.state for g in pairs[0]] == [g.bit_generator.state for g in pairs[1]]


def test_sizes_that_vary():
    def program(rng, x):
        y = rng.normal(size=x.shape) + x
        for i in range(x.shape[0]):
            y[i] += rng.random()
        return y, rng.random((x.shape[0], 2))

    compiled = numstax.jit(program, strict=True, dynamic=True)
    for n in (5, 7, 300):
        ours, theirs = np.random.default_rng(n), np.random.default_rng(n)
        for a, b in zip(compiled(ours, np.ones(n)), program(theirs, np.ones(n)), strict=True):
            assert a.tobytes() == b.tobytes()
        assert ours.bit_generator.state == theirs.bit_generator.state
    assert compiled.compile_count == 1


def test_draws_until_a_value_is_found():
    def program(rng, limit):
        tries = 0
        while rng.standard_normal() < limit:
            tries += 1
        return tries, rng.random()

    agrees(program, 2.5)


def test_draws_into_an_array():
    def program(rng, x):
        rng.standard_normal(out=x)
        y = np.empty((3, 2), np.float32)
        rng.random(out=y, dtype=np.float32)
        return x * 2, y

    agrees(program, np.zeros((2, 3)))


def test_distributions_with_parameters():
    def program(rng, a, b, x):
        return (
            rng.normal(size=3), rng.normal(2.5), rng.normal(a, b), rng.normal(a, b, 4), rng.normal(loc=x, scale=b),
            rng.normal(1, 2, ()), rng.normal(np.float32(a), x * x), rng.normal(scale=x * x, loc=np.arange(2)[:, None]),
            rng.uniform(), rng.uniform(a, a + b, (2, 2)), rng.uniform(low=x, high=x + 1), rng.uniform(-1, 1, 5),
            rng.uniform(high=np.array([1, 2, 3])), rng.uniform(a, size=0),
            rng.exponential(), rng.exponential(b), rng.exponential(x * x), rng.exponential(b, 3), rng.exponential(True),
        )  # fmt: skip

    agrees(program, -0.75, 1.5, np.array([0.5, -2.0, 3.0]))


def test_distributions_that_numpy_draws():
    def program(rng, x):
        return rng.normal(x, 1, (2, 3)), rng.lognormal(x), rng.uniform(x, 4, size=x.shape)

    agrees(program, np.ones(3), by_programs=False)


@pytest.mark.parametrize(
    "program",
    [
        lambda rng, x: rng.normal(0, x),
        lambda rng, x: rng.normal(np.zeros(3), np.array([1, 1, 0]) + x),
        lambda rng, x: rng.exponential(x),
        lambda rng, x: rng.exponential(x * np.ones(2)),
        lambda rng, x: rng.uniform(0, x),
        lambda rng, x: rng.uniform(np.zeros(2), x),
    ],
)
def test_parameters_are_checked(program):
    def both(rng, x):
        first = rng.random(3)
        return first, program(rng, x)

    compiled = numstax.jit(both)
    for x in (1.5, 0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, 2.5):
        results = []
        for run in (compiled, both):
            rng = np.random.default_rng(3)
            try:
                with warnings.catch_warnings(action="ignore"):
                    got = run(rng, x)
                results.append((np.asarray(got[1]).tobytes(), rng.bit_generator.state))
            except (ValueError, OverflowError) as error:
                results.append((str(error), rng.bit_generator.state))
        assert results[0] == results[1]
    assert compiled.compile_count == 1


@pytest.mark.parametrize("kind", OTHERS)
def test_other_bit_generators(kind):
    agrees(lambda rng: (rng.random(5), rng.standard_normal(), rng.random(3, np.float32)), kind=kind, by_programs=False)


def test_one_function_for_several_bit_generators():
    def program(rng):
        return rng.standard_normal(3)

    compiled = numstax.jit(program, strict=True)
    for kind in (*KNOWN, *OTHERS, *KNOWN):
        ours, theirs = (np.random.Generator(getattr(np.random, kind)(4)) for _ in range(2))
        assert compiled(ours).tobytes() == program(theirs).tobytes()
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
    assert compiled.compile_count == 3


class Doubled(np.random.Generator):
    def random(self, *args, **kwargs):
        return 2 * super().random(*args, **kwargs)


def test_a_class_of_the_user_draws_itself():
    compiled = numstax.jit(lambda rng: rng.random(4), strict=True)
    ours, theirs = (Doubled(np.random.PCG64(3)) for _ in range(2))
    assert compiled(ours).tobytes() == theirs.random(4).tobytes()
    assert ours.bit_generator.state == theirs.bit_generator.state
    plain = np.random.default_rng(3)
    assert (2 * compiled(plain)).tobytes() == Doubled(np.random.PCG64(3)).random(4).tobytes()


def test_generators_that_share_their_bits():
    def program(a, b):
        return a.random(3), b.standard_normal(2), a.random(3, np.float32), b.random(2, np.float32)

    compiled = numstax.jit(program, strict=True)
    states = []
    for run in (compiled, program):
        bits = np.random.PCG64(8)
        got = run(np.random.Generator(bits), np.random.Generator(bits))
        states.append((b"".join(x.tobytes() for x in got), bits.state))
    assert states[0] == states[1]


@dataclass
class Model:
    rng: np.random.Generator
    others: list


def test_generators_in_containers():
    def program(model):
        return model.rng.random(3), model.others[0].standard_normal(3), model.rng.random()

    compiled = numstax.jit(program, strict=True)
    ours, theirs = (Model(np.random.default_rng(1), [np.random.default_rng(2)]) for _ in range(2))
    assert [x.tobytes() for x in map(np.asarray, compiled(ours))] == [
        x.tobytes() for x in map(np.asarray, program(theirs))
    ]
    assert ours.others[0].bit_generator.state == theirs.others[0].bit_generator.state
    assert not library_calls(compiled)


CAPTURED = np.random.default_rng(5)


def test_a_captured_generator_becomes_another_kind():
    global CAPTURED

    def program():
        return CAPTURED.random(3)

    compiled = numstax.jit(program, strict=True)
    for kind in ("PCG64", "SFC64", "PCG64"):
        CAPTURED = np.random.Generator(getattr(np.random, kind)(6))
        got = compiled()
        CAPTURED = np.random.Generator(getattr(np.random, kind)(6))
        assert got.tobytes() == program().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_seeded_inside(dtype):
    def program(seed):
        rng = np.random.default_rng(seed)
        a = rng.random(3, dtype)
        total = 0.0
        for _ in range(50):
            total += rng.standard_normal()
        return a, total, rng.standard_normal(1000, dtype), rng.integers(9, size=3), rng.random(dtype=dtype)

    compiled = numstax.jit(program, strict=True)
    for seed in (1, 2):
        for a, b in zip(compiled(seed), program(seed), strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_a_call_that_fails_has_drawn_what_numpy_has():
    def program(rng, x, i):
        return rng.standard_normal(3) + x[i]

    compiled = numstax.jit(program)
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    compiled(ours, np.ones(4), np.int64(2))
    program(theirs, np.ones(4), np.int64(2))
    for run, rng in ((compiled, ours), (program, theirs)):
        with pytest.raises(IndexError):
            run(rng, np.ones(4), np.int64(7))
    assert ours.bit_generator.state == theirs.bit_generator.state


@pytest.mark.parametrize(
    "program",
    [
        lambda rng: rng.random(-1),
        lambda rng: rng.standard_normal(3, np.float16),
        lambda rng: rng.standard_normal(3, dtype=int),
    ],
)
def test_mistakes_are_those_of_numpy(program):
    with pytest.raises((ValueError, TypeError)) as theirs:
        program(np.random.default_rng(1))
    with pytest.raises(type(theirs.value)) as ours:
        numstax.jit(program)(np.random.default_rng(1))
    assert str(ours.value) == str(theirs.value)


def test_nobody_else_draws_meanwhile():
    compiled = numstax.jit(lambda rng: rng.random(3), strict=True)
    rng = np.random.default_rng(1)
    compiled(rng)
    thread = threading.Thread(target=compiled, args=(rng,))
    with rng.bit_generator.lock:
        state = rng.bit_generator.state
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
        assert rng.bit_generator.state == state
    thread.join()
    assert rng.bit_generator.state != state


@pytest.mark.parametrize("changed", ["_has_known_layout", "_checksum"])
def test_another_numpy_draws_itself(changed, monkeypatch):
    monkeypatch.setattr(draws, changed, lambda *_: False)
    draws.is_as_known.cache_clear()
    try:
        agrees(lambda rng: rng.standard_normal(5), by_programs=False)
    finally:
        draws.is_as_known.cache_clear()


def state_before(word, following):
    """A generator whose next two words are these."""
    factor, modulus = FACTOR_HIGH << 64 | FACTOR_LOW, 1 << 128
    # an upper half of so little turns nothing, and makes the lower one odd or even
    for high in (0, 1):
        first, second = word, high << 64 | (following ^ high)
        step = (second - first * factor) % modulus
        if step & 1:
            rng = np.random.default_rng(0)
            before = (first - step) * pow(factor, -1, modulus) % modulus
            rng.bit_generator.state = {
                "bit_generator": "PCG64", "state": {"state": before, "inc": step}, "has_uint32": 0, "uinteger": 0
            }  # fmt: skip
            return rng
    raise AssertionError


def test_state_before():
    words = 0x0123456789ABCDEF, 0xFEDCBA9876543210
    assert tuple(map(int, state_before(*words).bit_generator.random_raw(2))) == words


@pytest.mark.parametrize(("distribution", "first"), [("normal", 0), ("exponential", 3)])
def test_every_layer_ends_where_numpys_does(distribution, first):
    """On both sides of each layer's limit, where the next word decides, in each of the next layers' corners."""
    compiled = numstax.jit(lambda rng: getattr(rng, f"standard_{distribution}")(), strict=True)
    shift = 9 if distribution == "normal" else 11
    table = ziggurat(distribution, 64)
    for layer, limit in enumerate(table.limits):
        for number in (limit - 1, limit, (1 << table.bits) - 1):
            for following in (0, 1 << 62, (1 << 64) - 1):
                word = max(number, 0) << shift | layer << first
                ours, theirs = state_before(word, following), state_before(word, following)
                assert compiled(ours) == getattr(theirs, f"standard_{distribution}")()
                assert ours.bit_generator.state == theirs.bit_generator.state
