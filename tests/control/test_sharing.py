"""Names that share memory, around and inside loops and branches: as in NumPy, or refused."""

import dataclasses

import numpy as np
import pytest

import numstax
from numstax.errors import NumstaxError, NumstaxWarning
from tests.control.alike import Holder, N, alike, check, plain, uniform


def callee(u):
    for _ in range(N):
        u[0] += 1.0
        u = u * 0.5
    return u


def alias_arg(u, n):
    for _ in range(n):
        u[0] = 7.0
        u = u + 1
    return u


def alias_two(u, n):
    v = u
    for _ in range(n):
        u[0] += 1.0
        u = u * 0.5
    return (u, v.copy())


def alias_outer_view(a, n):
    v = a[2:]
    for i in range(n):
        a[3] += v[0]
        v[0] += 1
    return v.sum()


def swap_args(u, v, n):
    for i in range(n):
        u[i % 5] += v[0]
        u, v = (v, u)
    return (u, v)


def swap_then_write(u, v, n):
    for i in range(n):
        u, v = (v, u)
    u[0] = 100.0
    return (u, v)


def rotate3(a, b, c, n):
    for i in range(n):
        c[1:-1] = a[2:] + b[:-2]
        a, b, c = (b, c, a)
    return (a, b, c)


def bind_outer(a, b, n):
    p = b
    for i in range(n):
        p = a
        p[i % 4] += 1
    p[0] = -5
    return p


def row_after(a):
    for i in range(a.shape[0]):
        row = a[i]
        row[0] += 1
    row[1] = 99.0
    a[-1, 2] = 55.0
    return row.copy()


def view_after(a):
    for i in range(a.shape[0]):
        row = a[i]
        s = row.sum()
    a[:] = 0
    return row.sum() + s


def shared_fresh(x, n):
    for _ in range(n):
        u = v = x * 2
        u[0] = 5
    v[1] = 9
    return (u, v)


def chain(u, n):
    old = u
    for i in range(n):
        old, u = (u, u + 1)
    old[0] = 50
    return (old, u)


def two_states_alias(x, n):
    a = x.copy()
    b = a
    for _ in range(n):
        a = a + 1
        b[0] += 1
    return (a, b)


def augment_outer(x):
    s = np.zeros(3)
    for i in range(len(x)):
        s += x[i]
        t = s
    s[0] = 1
    return (t, s)


def cond_arr(x, f):
    if f > 0:
        x = x + 1
    else:
        x = x * 2
    x[0] = 3
    return x


def cond_alias(x, y, f):
    z = x if f > 0 else y
    return z + 1


def cond_write_one(x, f):
    if f > 0:
        x[0] = 5.0
    return x


def share_cond(x, f):
    if f > 0:
        u = v = x * 2
    else:
        u = v = x * 3
    u[0] = 1
    return v


def same_name_caller(x):
    u = x * 1.0
    w = callee(u)
    return (u, w)


def in_object(x):
    o = Holder()
    u = x * 1.0
    o.keep = u
    for _ in range(N):
        u[0] += 1.0
        u = u * 0.5
    return (o.keep, u)


def aug_view_state(a):
    v = a[0]
    for i in range(1, a.shape[0]):
        v += a[i]
        v = a[i]
        v *= 0.5
    return a


def reuse_after(x):
    y = x
    for i in range(N):
        y = y + 1
    y[0] = 5
    return (x, y)


def arr_states(a, b, n):
    for i in range(N):
        a, b = (b, a + b)
    a[0] = 0
    return (a, b)


def view_cond_in_loop(a):
    for i in range(a.shape[0]):
        r = a[i] if i % 2 == 0 else a[0]
        a[0, 0] += r[1]
    return a


def two_level(a):
    for i in range(a.shape[0]):
        t = a[i]
        for j in range(a.shape[1]):
            t[j] = t[j] * 2 + i
    return a


def list_arrays(x):
    ws = [x.copy(), x * 2]
    for i in range(N):
        for k in range(2):
            ws[k] = ws[k] * 0.9 + 0.1
    return (ws[0], ws[1])


def cond_alias_write(x, y, f):
    if f > 0:
        z = x
    else:
        z = y
    z[0] = 99.0
    return (x, y)


def acc_alias(x):
    best = x[0:3]
    for i in range(len(x) - 3):
        w = x[i : i + 3]
        if w.sum() > best.sum():
            best = w
    x[:] = 0
    return best + 0.0


def best_view_write(x):
    best = x[0:3]
    for i in range(len(x) - 3):
        w = x[i : i + 3]
        if w.sum() > best.sum():
            best = w
    best[:] = -1
    return x


def list_with_two_names(x):
    a = [0.0]
    b = a
    for i in range(N):
        a[0] = a[0] + x[i]
        a = a
    return b[0]


@dataclasses.dataclass
class Body:
    place: np.ndarray
    time: float


def new_objects(x):
    body = Body(x, 0.0)
    first = body
    for i in range(N):
        body = Body(body.place + 0.1 * x, body.time + 0.1)
    return body.place, body.time, first.time


def changed_object(x):
    body = Body(x, 0.0)
    first = body
    for i in range(N):
        body.time = body.time + x[i]
        body = body
    return first.time


def both_branches_write(x, limit):
    if x[0] < limit:
        x[1:] = 3
        n = 1
    else:
        x[1:] = 3
        n = 2
    return n


PROGRAMS = [
    (both_branches_write, (uniform(4), 0.5)),
    (both_branches_write, (uniform(4), -0.5)),
    (alias_arg, (uniform(6), N)),
    (alias_two, (uniform(6), N)),
    (alias_outer_view, (uniform(6), N)),
    (swap_args, (uniform(6), uniform(6), N)),
    (swap_args, (uniform(6), uniform(6), N + 1)),
    (swap_then_write, (uniform(6), uniform(6), N + 1)),
    (rotate3, (uniform(6), uniform(6), uniform(6), N)),
    (bind_outer, (uniform(6), uniform(6), N)),
    (row_after, (uniform(N, 5),)),
    (view_after, (uniform(N, 5),)),
    (shared_fresh, (uniform(6), N)),
    (chain, (uniform(6), N)),
    (two_states_alias, (uniform(4), N)),
    (augment_outer, (uniform(N, 3),)),
    (cond_arr, (uniform(5), 1.0)),
    (cond_arr, (uniform(5), -1.0)),
    (cond_alias, (uniform(5), uniform(5), 1.0)),
    (cond_write_one, (uniform(5), -1.0)),
    (share_cond, (uniform(4), 1.0)),
    (same_name_caller, (uniform(5),)),
    (in_object, (uniform(5),)),
    (aug_view_state, (uniform(N, 3),)),
    (reuse_after, (uniform(4),)),
    (arr_states, (uniform(3), uniform(3), N)),
    (view_cond_in_loop, (uniform(N, 3),)),
    (two_level, (uniform(N, 20),)),
    (list_arrays, (uniform(6),)),
    (list_with_two_names, (uniform(N),)),
    (new_objects, (uniform(4),)),
    (changed_object, (uniform(N),)),
]
REFUSED = [
    (cond_alias_write, (uniform(5), uniform(5), 1.0)),
    (acc_alias, (uniform(N),)),
    (best_view_write, (uniform(N),)),
]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=[f"{f.__name__}{k}" for k, (f, _) in enumerate(PROGRAMS)])
def test_names_that_share_memory(program, args, backend):
    check(program, args, backend)


@pytest.mark.parametrize(("program", "args"), REFUSED, ids=[f.__name__ for f, _ in REFUSED])
def test_what_cannot_be_told_apart_is_refused(program, args):
    with pytest.raises(NumstaxError, match="a view that a loop or branch made"):
        numstax.jit(program, strict=True)(*[a.copy() if isinstance(a, np.ndarray) else a for a in args])
    ours, theirs = ([a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2))
    with pytest.warns(NumstaxWarning, match="plain NumPy"):
        got = numstax.jit(program)(*ours)
    alike(got, plain(program, theirs))
    alike(ours, theirs)


@pytest.mark.parametrize("program", [rotate3, row_after, same_name_caller, alias_arg, new_objects])
def test_sharing_does_not_make_loops_long(program):
    args = next(args for f, args in PROGRAMS if f is program)
    (artifact,) = check(program, args, "reference").artifacts()
    assert "for" in [node.op for node in artifact.region.graph.nodes()]
