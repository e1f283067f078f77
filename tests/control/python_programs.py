"""Programs of what Python does in and around loops and branches: scopes, types, iterators, draws, early ends."""

import numpy as np

from tests.control.alike import Holder, N, uniform


def const_branch(x):
    t = np.array([1.0, 5.0, 2.0, 7.0])
    s = 0.0
    for i in range(len(x)):
        if t[i % 4] > 3:
            s += x[i]
        else:
            s -= x[i]
    return s


def branch_end(x, f):
    z = x * 1
    if f > 0:
        z = x[1:3]
        x[1] = 50.0
    else:
        z = x[2:4] * 1
    return z + 0


def hoist_check(x, idx):
    s = x[0]
    for i in range(int(x[1])):
        s += x[idx[0]]
    return s


def zero_var(x):
    r = x[0]
    for i in range(int(x[1])):
        last = x[i]
        r = r + last
    return r


def draws(rng_):
    s = 0.0
    for i in range(N):
        s += rng_.random()
    return (s, rng_.random())


def draws_arr(rng_):
    a = np.zeros(3)
    for i in range(N):
        a = a * 0.5 + rng_.normal(size=3)
    return (a, rng_.random())


def draws_cond(rng_, f):
    if f > 0:
        x = rng_.random()
    else:
        x = rng_.random() + rng_.random()
    return (x, rng_.random())


def solve_after(n, b):
    A = np.zeros((n, n))
    for i in range(n):
        A[i, i] = 2.0 + i
    return np.linalg.solve(A, b)


def nested_if(x):
    o = np.zeros(len(x), int)
    for i in range(len(x)):
        if x[i] < 0.3:
            o[i] = 1
        elif x[i] < 0.6:
            if i % 2:
                o[i] = 2
            else:
                o[i] = 3
        else:
            o[i] = 4
    return o


def if_idx(x):
    s = 0.0
    for i in range(len(x)):
        if i > 0:
            s += x[i - 1]
        else:
            s -= 1
        if i % 3 == 0:
            s *= 2
    return s


def negidx(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i - 1] * x[-i]
    return s


def growshape(x):
    s = 0.0
    for i in range(len(x)):
        t = x[: i + 1] * 2
        s += t.sum()
    return s


def growmax(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[: i + 1].max()
    return y


def clampslice(x):
    y = np.zeros_like(x)
    for i in range(len(x)):
        y[i] = x[max(0, i - 2) : i + 3].sum()
    return y


def loopvar_shadow(x):
    i = 5
    for i in range(3, len(x), 2):
        x[i] += i
    return (i, x)


def type_change(x):
    s = None
    for i in range(len(x)):
        if s is None:
            s = x[i]
        else:
            s = s + x[i]
    return s


def type_change2(x):
    prev = None
    c = 0
    for i in range(len(x)):
        if prev is not None:
            c += 1
        prev = x[i]
    return c


def int_to_float(x):
    y = 3
    for i in range(len(x)):
        y = x[i] * 0.5 + y
    return y


def f32acc2(x):
    s = np.float64(0.1)
    for i in range(len(x)):
        s = x[i] * s
    return s


def dead_tmp(x):
    t = "hello"
    for i in range(len(x)):
        t = x[i] * 2
        x[i] = t
    return x


def none_after(x):
    for i in range(len(x)):
        r = x[i] > 0.5
        q = None
    return (r, q)


def str_state(x):
    m = "a"
    for i in range(len(x)):
        m = "b"
    return x if m == "b" else -x


def bool_flag2(x):
    ok = True
    for i in range(len(x)):
        ok = ok and x[i] < 2
    return ok


def list_state(x):
    st = [x[0], x[1]]
    for i in range(len(x)):
        st[0] = st[0] + x[i]
        st[1] = st[1] * 0.5
    return (st[0], st[1])


def dict_state(x):
    d = {"a": x[0], "n": 0}
    for i in range(len(x)):
        d["a"] += x[i]
        d["n"] += 1
    return (d["a"], d["n"])


def obj_state(x):
    o = Holder()
    o.a = x
    o.s = 0.0
    for i in range(len(x)):
        o.s += o.a[i]
    return o.s


def tuple_state(x):
    p = (x[0], x[1])
    for i in range(len(x)):
        p = (p[1], p[0] + x[i])
    return p


def nested_break(a, t):
    c = 0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > t:
                break
            c += 1
    return c


def cond_unassigned(x):
    for i in range(len(x)):
        if x[i] > 5:
            x[i]
    return x.sum()


def dyn_trip(x):
    s = 0
    for i in range(int(x[0])):
        s += i
    return s


def factorial(n):
    a = 1
    for i in range(1, n + 1):
        a *= i
    return a


def random_walk(x):
    pos = 0
    hi = 0
    for i in range(len(x)):
        pos += 1 if x[i] > 0.5 else -1
        hi = max(hi, pos)
    return (pos, hi)


def minmax(x):
    lo = np.inf
    hi = -np.inf
    for i in range(len(x)):
        lo = min(lo, x[i])
        hi = max(hi, x[i])
    return (lo, hi)


def absround(x):
    s = 0
    for i in range(len(x)):
        s += abs(round(x[i] * 10) - 5)
    return s


def table(x):
    t = np.array([1.0, 2.0, 5.0, 7.0])
    s = 0.0
    for i in range(len(x)):
        s += t[i % 4] * x[i]
    return s


def table_list(x):
    t = [1.0, 2.0, 5.0, 7.0]
    s = 0.0
    for i in range(len(x)):
        s += t[i % 4] * x[i]
    return s


def enum2(x, y):
    for i, (a, b) in enumerate(zip(x, y)):
        x[i] = a + b * i
    return x


def closure(x):

    def f(v):
        if v > 0.5:
            return v * 2
        return -v

    s = 0.0
    for i in range(len(x)):
        s += f(x[i])
    return s


def try_exc(x):
    s = 0.0
    for i in range(len(x)):
        try:
            s += x[i]
        except ValueError:
            s = 0
    return s


def anyall(x):
    return (any(v > 0.5 for v in x), all(v > 0.1 for v in x))


def genexp(x):
    return max(v * 2 for v in x)


def mask_loop(x):
    for k in range(30):
        x[x > 0.5] *= 0.9
    return x


def sort_in_loop(a):
    for i in range(a.shape[0]):
        a[i].sort()
    return a


def argmin_sel(x):
    x = x.copy()
    for i in range(len(x)):
        j = i + np.argmin(x[i:])
        x[i], x[j] = (x[j], x[i])
    return x


def extern_loop(a, n):
    for _ in range(n):
        a = np.linalg.inv(a) * 0.5
    return a


def ret_tuple(x):
    for i in range(len(x)):
        if x[i] > 0.9:
            return (i, x[i])
    return (-1, 0.0)


def fixedpoint(x):
    while True:
        y = np.cos(x)
        if np.abs(y - x).max() < 1e-08:
            return y
        x = y


def while_idx(x):
    i = 0
    s = 0.0
    while i < len(x):
        s += x[i]
        i += 1
    return (s, i)


def ret_in_nested(a, t):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if a[i, j] > t:
                return i * 100 + j
    return -1


def roll_states(a, b, c, x):
    for i in range(N):
        a, b, c = (b, c, a + b * x[i])
    return (a, b, c)


def bincount_like(x):
    c = [0] * 5
    for i in range(N):
        c[i % 5] += 1
    return c[2] * x[0]


def global_counter(x):
    n = 0

    def inc():
        nonlocal n
        n += 1

    for i in range(N):
        inc()
    return x * n


def mutated_default(x):
    acc = {}
    for i in range(N):
        acc[i] = x[i]
    return acc[3] + acc[5]


def stop_iter(x):
    it = iter(range(100))
    s = 0
    for i in range(len(x)):
        s += next(it) * x[i]
    return s


PROGRAMS = [
    (const_branch, (uniform(N),)),
    (branch_end, (uniform(6), 1.0)),
    (branch_end, (uniform(6), -1.0)),
    (hoist_check, (np.array([0.5, 0.0, 1.0]), np.array([77]))),
    (zero_var, (np.array([0.5, 0.0]),)),
    (zero_var, (np.array([0.5, 2.0]),)),
    (draws, (np.random.default_rng(5),)),
    (draws_arr, (np.random.default_rng(5),)),
    (draws_cond, (np.random.default_rng(5), 1.0)),
    (draws_cond, (np.random.default_rng(5), -1.0)),
    (solve_after, (20, uniform(20))),
    (nested_if, (uniform(N),)),
    (if_idx, (uniform(N),)),
    (negidx, (uniform(N),)),
    (growshape, (uniform(N),)),
    (growmax, (uniform(N),)),
    (clampslice, (uniform(N),)),
    (loopvar_shadow, (uniform(N),)),
    (type_change, (uniform(N),)),
    (type_change2, (uniform(N),)),
    (int_to_float, (uniform(N).astype("f4"),)),
    (f32acc2, (uniform(N).astype("f4"),)),
    (dead_tmp, (uniform(N),)),
    (none_after, (uniform(N),)),
    (str_state, (uniform(N),)),
    (bool_flag2, (uniform(N),)),
    (list_state, (uniform(N),)),
    (dict_state, (uniform(N),)),
    (obj_state, (uniform(N),)),
    (tuple_state, (uniform(N),)),
    (nested_break, (uniform(N, 20), 0.9)),
    (cond_unassigned, (uniform(N),)),
    (dyn_trip, (np.array([30.0]),)),
    (dyn_trip, (np.array([-3.0]),)),
    (factorial, (18,)),
    (factorial, (25,)),
    (random_walk, (uniform(N),)),
    (minmax, (uniform(N),)),
    (absround, (uniform(N),)),
    (table, (uniform(N),)),
    (table_list, (uniform(N),)),
    (enum2, (uniform(N), uniform(N))),
    (closure, (uniform(N),)),
    (try_exc, (uniform(N),)),
    (anyall, (uniform(N),)),
    (genexp, (uniform(N),)),
    (mask_loop, (uniform(N),)),
    (sort_in_loop, (uniform(N, 5),)),
    (argmin_sel, (uniform(N),)),
    (extern_loop, (uniform(4, 4) + 4 * np.eye(4), N)),
    (ret_tuple, (uniform(N),)),
    (fixedpoint, (uniform(5),)),
    (while_idx, (uniform(N),)),
    (ret_in_nested, (uniform(N, 20), 0.99)),
    (ret_in_nested, (uniform(N, 20), 1.99)),
    (roll_states, (1.0, 2.0, 3.0, uniform(N))),
    (bincount_like, (uniform(3),)),
    (global_counter, (uniform(3),)),
    (mutated_default, (uniform(N),)),
    (stop_iter, (uniform(N),)),
]
