"""The interpreter gives operations the types that Numba infers."""

import ast
import operator

import numpy as np
import pytest
from numba.core import types
from numba.core.registry import cpu_target

from numstax.runtime.simulate_values import UNARY, binary, choose, largest, made_complex, magnitude

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.Eq: operator.eq,
}
ONE_OPERAND = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert, ast.Not: operator.not_}
DTYPES = [np.dtype(d) for d in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16")]


@pytest.fixture(scope="module")
def inferred():
    """inferred(function, dtypes..): the dtype that Numba infers, None where it refuses."""
    context = cpu_target.typing_context
    context.refresh()

    def infer(function, *dtypes):
        if isinstance(function, type):
            function = context.resolve_value_type(function)
        try:
            found = context.resolve_function_type(function, [getattr(types, str(d)) for d in dtypes], {})
        except Exception:
            return None
        return np.dtype(str(found.return_type))

    return infer


@pytest.mark.parametrize("node", OPERATORS, ids=lambda node: node.__name__)
def test_binary(node, inferred):
    for a in DTYPES:
        for b in DTYPES:
            want = inferred(OPERATORS[node], a, b)
            if want is not None:
                assert binary(node, a.type(1), b.type(1)).dtype == want, (a, b)
                assert binary(node, np.ones((2, 32), a), b.type(1)).dtype == want, (a, b)


@pytest.mark.parametrize("node", ONE_OPERAND, ids=lambda node: node.__name__)
def test_unary(node, inferred):
    for a in DTYPES:
        want = inferred(ONE_OPERAND[node], a)
        if want is not None:
            assert UNARY[node](a.type(1)).dtype == want, a


def test_functions(inferred):
    for a in DTYPES:
        assert magnitude(a.type(1)).dtype == inferred(abs, a)
        for b in DTYPES:
            if a.kind == b.kind == "f":
                assert made_complex(a.type(1), b.type(1)).dtype == inferred(complex, a, b)
            if a.kind != "c" and b.kind != "c" and a.itemsize == b.itemsize and a.kind == b.kind:
                assert largest(a.type(1), b.type(1)).dtype == inferred(max, a, b)


def test_variables_of_two_types():
    context = cpu_target.typing_context
    for a in DTYPES:
        for b in DTYPES:
            want = context.unify_pairs(getattr(types, str(a)), getattr(types, str(b)))
            assert choose(np.ones(3, bool), a.type(1), b.type(1)).dtype == np.dtype(str(want)), (a, b)
