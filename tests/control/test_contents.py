"""What lists, dicts, sets, objects and iterators hold after loops and branches that were run on trial."""

import array
import collections
import dataclasses
import itertools
import warnings

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxWarning

X = np.arange(4.0)


@dataclasses.dataclass(slots=True)
class Slotted:
    value: int = 0


class OwnSlots:
    __slots__ = ("later", "value")

    def __init__(self):
        self.value = 0


class Deep(dict):
    """A dict with attributes."""


def count_up(held):
    held.value += 1


KINDS = {
    "list": (list, lambda c: c.append(1), len),
    "set": (set, lambda c: c.add(len(c)), len),
    "deque": (collections.deque, lambda c: c.append(1), len),
    "defaultdict": (lambda: collections.defaultdict(int), lambda c: c.__setitem__("a", c["a"] + 1), lambda c: c["a"]),
    "Counter": (collections.Counter, lambda c: c.update("a"), lambda c: c["a"]),
    "OrderedDict": (collections.OrderedDict, lambda c: c.__setitem__(len(c), 1), len),
    "order": (lambda: collections.OrderedDict(a=1, b=2), lambda c: c.move_to_end("a"), lambda c: [*c].index("a")),
    "dict with attributes": (Deep, lambda c: c.__setitem__(len(c), 1), len),
    "bytearray": (bytearray, lambda c: c.append(1), len),
    "array": (lambda: array.array("d"), lambda c: c.append(1), len),
    "dataclass with slots": (Slotted, count_up, lambda c: c.value),
    "slots": (OwnSlots, count_up, lambda c: c.value),
    "a slot without value": (OwnSlots, lambda c: setattr(c, "later", 1), lambda c: getattr(c, "later", 0)),
    "iterator": (lambda: iter(range(100)), next, next),
    "list iterator": (lambda: iter([*range(100)]), next, next),
    "drained": (lambda: iter([1, 2]), list, lambda c: len(list(c))),
    "zip": (lambda: zip(range(100), range(100), strict=True), next, lambda c: next(c)[0]),
    "generator": (lambda: (k for k in range(100)), next, next),
    "drained generator": (lambda: (k for k in range(100)), sum, lambda c: next(c, -1)),
    "count": (itertools.count, next, next),
}


def not_taken(x, make, change, get):
    held = make()
    if x.sum() > 100:
        change(held)
    return x + get(held)


def taken(x, make, change, get):
    held = make()
    if x.sum() < 100:
        change(held)
    else:
        x = x + 1
    return x + get(held)


def in_a_loop(x, make, change, get):
    held = make()
    for _ in range(40):
        change(held)
        x = x + 1
    return x + get(held)


def in_a_branch_of_a_loop(x, make, change, get):
    held = make()
    for _ in range(40):
        if x[0] > 20:
            change(held)
        x = x + 1
    return x + get(held)


def while_small(x, make, change, get):
    held = make()
    while x[0] < 20:
        change(held)
        x = x + 1
    return x + get(held)


def after_an_exception(x, make, change, get):
    held = make()
    try:
        change(held)
        if x[0] > 100:
            change(held)
        x[9]
    except IndexError:
        change(held)
    return x + get(held)


PROGRAMS = (not_taken, taken, in_a_loop, in_a_branch_of_a_loop, while_small, after_an_exception)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_those_of_python(kind, program) -> None:
    want = program(X, *KINDS[kind])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NumstaxWarning)
        got = numstax.jit(lambda x: program(x, *KINDS[kind]))(X)
    np.testing.assert_array_equal(got, want)
