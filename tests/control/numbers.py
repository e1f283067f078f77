"""Programs of Python's numbers, compiled, against Python: results, exceptions, and whether Python did the call."""

import copy
import warnings

import numstax
from numstax.errors import NumstaxWarning
from tests.control.alike import alike, plain


def outcome(program, args):
    """What a call gives, or the exception that it raises."""
    try:
        return plain(program, args)
    except (ArithmeticError, ValueError) as error:
        return error


def check(program, *args, backend="cpu", again=True):
    """Compiled, the program gives what it gives in Python, and leaves its arguments as it does there; `again`: Python
    has to do the call again, which a warning says unless Python raises."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    wanted = outcome(program, theirs)
    compiled = numstax.jit(program, backend=backend)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", NumstaxWarning)
        got = outcome(compiled, ours)
    if isinstance(wanted, Exception):
        assert type(got) is type(wanted)
        assert str(got) == str(wanted)
    else:
        alike(got, wanted)
    alike(ours, theirs)
    expected = again and not isinstance(wanted, Exception)
    assert [w.category for w in found if w.category is NumstaxWarning] == [NumstaxWarning] * expected
    assert not compiled.artifacts() or compiled.artifacts()[0].reason == ""
    return compiled
