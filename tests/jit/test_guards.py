"""guards: interchangeable calls share a key and pass the guard; others do not."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from numstax.dtypes import BFLOAT16
from numstax.guards import MISS, Guard, is_odd, key_of

X = np.arange(12, dtype=np.float32).reshape(3, 4)


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Box:
    content: object


def accepts(first, second):
    """Does the guard made from one tuple of arguments let another pass?"""
    guard = Guard(first, {}, frozenset())
    passed = guard.enter("True")(second, {})
    assert passed is (MISS if guard.failing(second, {}) else True)
    assert (key_of(first) == key_of(second)) is (passed is True)
    return passed is True


SAME = [
    (X, X + 1),
    (X.T, X.T.copy(order="F")),
    (2.0, -0.0),
    (1j, 2j),
    (np.float32(1), np.float32(2)),
    ((X, [X, 3]), (X, [X * 2, 3])),
    ({"a": X, "b": 1.0}, {"a": X, "b": 2.0}),
    (Pair(X, 1), Pair(X, 1)),
    (Box(X), Box(X + 1)),
    (slice(1, None), slice(1, None)),
    (X.astype(BFLOAT16), X.astype(BFLOAT16)),
    (X.astype(">f4"), X.astype(">f4")),
]
OTHER = [
    (X, X.astype(np.float64)),
    (X, X[:2]),
    (X, X.T),
    (X, X[:, ::-1]),
    (X, X.astype(">f4")),
    (X, X.ravel()),
    (X, 1.0),
    (X[0, 0], float(X[0, 0])),
    (np.float32(1), np.float64(1)),
    (1, 2),
    (1, True),
    (1, 1.0),
    (None, False),
    ("a", "b"),
    ((X,), [X]),
    ((X, X), (X,)),
    ({"a": X}, {"b": X}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    (Pair(X, 1), (X, 1)),
    (Box(1), Box(2)),
    (slice(1, None), slice(2, None)),
    (X, np.ma.masked_array(X)),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_interchangeable(first, second):
    assert accepts((first,), (second,))


@pytest.mark.parametrize(("first", "second"), OTHER)
def test_different(first, second):
    assert not accepts((first,), (second,))
    assert not accepts((second,), (first,))


def test_number_of_arguments_and_keywords():
    assert not accepts((X,), (X, X))
    enter = Guard((X,), {"axis": 0}, frozenset()).enter("True")
    assert enter((X,), {"axis": 0}) is True
    for args, kwargs in (((X,), {}), ((X,), {"axis": 1}), ((X,), {"other": 0}), ((X, 0), {"axis": 0})):
        assert enter(args, kwargs) is MISS


def test_static_places_compare_values():
    static = frozenset((0, "scale"))
    enter = Guard((0.0,), {"scale": 2.0}, static).enter("True")
    assert enter((0.0,), {"scale": 2.0}) is True
    assert enter((-0.0,), {"scale": 2.0}) is MISS
    assert enter((0.0,), {"scale": 2.5}) is MISS
    key = object()
    assert Guard((key,), {}, static).enter("True")((key,), {}) is True
    assert Guard((key,), {}, static).enter("True")((object(),), {}) is MISS


def test_leaves_are_found_again():
    args = ((X, {"w": X * 2}), Box(3.0), Pair("s", np.float32(4)))
    guard = Guard(args, {"more": [X * 3]}, frozenset())
    again = ((X, {"w": X * 5}), Box(6.0), Pair("s", np.float32(7)))
    leaves = guard.enter(f"[{', '.join(guard.leaves)}]")(again, {"more": [X * 8]})
    assert leaves[2:4] == [6.0, np.float32(7)]
    assert [leaf[0, 1] for leaf in (*leaves[:2], leaves[4])] == [1, 5, 8]


def test_odd_arrays_are_given_as_copies():
    packed = np.zeros(5, [("tag", "u1"), ("value", "<f4")])["value"]
    packed[:] = np.arange(5)
    swapped = np.arange(5, dtype=">i2")
    assert is_odd(packed)
    assert is_odd(swapped)
    assert not is_odd(X[:, ::-1])
    guard = Guard((packed, swapped, X), {}, frozenset())
    assert guard.odd == {"plain_copy(args[0])", "plain_copy(args[1])"}
    for given in (guard.given()[0], guard.enter(f"[{', '.join(guard.leaves)}]")((packed, swapped, X), {})):
        assert [a.dtype.str for a in given] == ["<f4", "<i2", "<f4"]
        assert not any(map(is_odd, given))
        assert [a.tolist() for a in given[:2]] == [[0, 1, 2, 3, 4]] * 2


def test_written_inputs_must_be_writeable():
    guard = Guard((X, X + 1), {})
    guard.writes(guard.leaves, [0, 1], [1])
    frozen = X + 1
    frozen.flags.writeable = False
    assert guard.enter("True")((X, X), {}) is True
    assert guard.enter("True")((X, frozen), {}) is MISS
    assert "writeable" in guard.failing((X, frozen), {})


def test_shared_memory_is_noticed():
    guard = Guard((X, X, 1.0), {})
    shared = guard.enter(guard.writes(guard.leaves, [0, 1], [1]))
    base = np.zeros(20, np.float32)
    assert shared((X, X + 1, 1.0), {}) is False
    assert shared((X, X, 1.0), {}) is True
    assert shared((base[:12].reshape(3, 4), base[8:].reshape(3, 4), 1.0), {}) is True
    assert guard.writes(guard.leaves, [0, 1], []) == ""
    assert guard.writes(guard.leaves, [0], [0]) == ""


def test_failing_condition_shows_the_value_seen():
    guard = Guard((X,), {}, frozenset())
    assert "(2, 4)" in guard.failing((X[:2],), {})
    assert guard.failing((X,), {}) == ""
