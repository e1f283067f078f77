"""A program with loops and branches, compiled, against plain NumPy: results, types, and arguments afterwards."""

import copy
import warnings

import numpy as np

import numstax
from tests.support import same

N = 40
"""Iterations: too many to be unrolled."""


def uniform(*shape):
    return np.random.default_rng(sum(shape)).random(shape)


class Holder:
    """Something with attributes."""


def plain(program, args):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return program(*args)


def check(program, args, backend, **options):
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    wanted = plain(program, theirs)
    compiled = numstax.jit(program, strict=True, backend=backend, **options)
    alike(compiled(*ours), wanted)
    alike(ours, theirs)
    return compiled


def alike(got, want):
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            alike(a, b)
    elif isinstance(want, np.random.Generator):
        assert got.bit_generator.state == want.bit_generator.state
    elif isinstance(want, np.ndarray | np.generic | float | complex):
        same(got, want, ulps=4096)
    else:
        assert type(got) is type(want)
        assert got == want
