"""Records behave as frozen dataclasses with slots do."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace

import pytest

from numstax.records import record


@dataclass(frozen=True, slots=True)
class Model:
    a: int
    b: str = "x"
    note: object = field(default=None, compare=False, repr=False)


@record
class Same:
    a: int
    b: str = "x"
    note: object = field(default=None, compare=False, repr=False)


@record
class Derived(Same):
    c: int = 0

    def __post_init__(self) -> None:
        if self.c < 0:
            raise ValueError("negative")

    def __hash__(self) -> int:
        return 7


@record
class Nothing:
    pass


@record(eq=False, weakref_slot=True)
class Identity:
    a: int


def test_fields_defaults_and_text_are_those_of_a_dataclass():
    assert is_dataclass(Same)
    described = [[(f.name, f.type, f.default, f.compare, f.repr) for f in fields(c)] for c in (Same, Model)]
    assert described[0] == described[1]
    assert repr(Same(1, note=3)) == repr(Model(1, note=3)).replace("Model", "Same")
    assert Same.__match_args__ == Model.__match_args__
    assert Same.__slots__ == Model.__slots__
    assert not hasattr(Same(1), "__dict__")


def test_equality_and_hash_follow_the_compared_fields():
    assert Same(1, note=3) == Same(1, note=4)
    assert hash(Same(1, note=[])) == hash(Same(1)) == hash(Model(1))
    assert Same(1) != Same(2)
    assert Same(1) != Model(1)
    assert Same(1) != Derived(1)
    assert Nothing() == Nothing()
    assert Identity(1) != Identity(1)


def test_replace_copy_and_pickle_keep_the_other_fields():
    assert replace(Derived(1, "y", 2, 3), a=5) == Derived(5, "y", 2, 3)
    value = Derived(1, "y", 2, 3)
    for twin in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert twin == value
        assert twin.note == 2


def test_records_are_frozen():
    value = Same(1)
    with pytest.raises(FrozenInstanceError, match="'a' of Same"):
        value.a = 2
    with pytest.raises(FrozenInstanceError):
        del value.a
    assert value.a == 1


def test_methods_of_the_class_body_are_kept():
    assert hash(Derived(1)) == 7
    with pytest.raises(ValueError, match="negative"):
        Derived(1, c=-1)
    with pytest.raises(TypeError, match="__init__"):
        Same()
