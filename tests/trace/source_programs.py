# ruff: noqa: RET503, RET504, RUF021
"""Functions with loops, branches and jumps that are run as written and rewritten; `LOG` is what they noted."""

LOG: list = []


def note(x):
    LOG.append(x)
    return x


def early(x):
    if x > 3:
        return "big"
    if x < 0:
        return "negative"
    elif x == 2:
        return "two"
    y = x + 1
    return y


def falls_off(x):
    if x:
        return 1


def nested_return(x):
    if x > 0:
        if x > 5:
            return "a"
        x += 1
    else:
        x -= 1
    return x


def search(xs, wanted):
    for k, x in enumerate(xs):
        if x == wanted:
            return k
        if x < 0:
            continue
        note(x)
    else:
        note("all")
    return -1


def breaking(n):
    total = 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            if (i + j) % 3 == 0:
                continue
            total += i * j
        else:
            total += 100
        if total > 50:
            break
    else:
        total = -total
    return total


def whiles(n):
    steps = 0
    while n != 1:
        if n % 2:
            n = 3 * n + 1
        else:
            n //= 2
        steps += 1
        if steps > 20:
            return "long"
    return steps


def values(a, b, c):
    return (a and b or c, not a, a if b else c, 0 < note(a) < note(b) <= note(c))


def tries(x):
    out = []
    for k in range(4):
        try:
            out.append(1 // (x - k))
            if k == 2:
                break
        except ZeroDivisionError as e:
            out.append(str(e))
            continue
        finally:
            note(k)
        out.append("end")
    return out


def fails(x):
    y = 1
    if x:
        y = 2
        raise ValueError("no" if y else "yes")
    return y


def inner_functions(n):
    k = 1

    def add(x):
        if x > 2:
            return x + k
        return x

    fs = []
    for i in range(n):
        k = i
        fs.append(lambda x: x + k if x else k)
    return [add(i) for i in range(n)], [f(1) for f in fs]


def swaps(n, *rest, base=10, **words):
    a, b = 0, base
    while a < n and b > 0:
        a, b = a + 1, b - 1
        if rest:
            b -= len(rest)
    return a, b, words


def dead_store(n):
    for i in range(n):
        t = i * 2
        note(t)
    return n


def partial(flag):
    if flag:
        y = 1
    else:
        z = 2
    return y if flag else z


def returns_in_with_loop(n):
    i = 0
    while True:
        i += 1
        if i == n:
            return i
        if i > 5:
            break
    return -i


def power(x):
    return 2 if x > 1 else 3


lambdas = lambda x: x + 1 if x > 2 else x - 1  # noqa: E731


class Fails:
    """Fails at its end, or holds exceptions back."""

    def __init__(self, suppress=False):
        self.suppress = suppress

    def __enter__(self):
        return note("in")

    def __exit__(self, *error):
        note("out")
        if not self.suppress:
            raise ValueError("exit")
        return True


def loop_else_without_break(n):
    total = 0
    for i in range(n):
        total += i
    else:
        total += 100
    while total > 500:
        total //= 2
    else:
        note(total)
    return total


def after_the_end(x):
    if x > 2:
        return x
        note("never")
    for i in range(x):
        note(i)
        continue
        return i
    return -x
    if x:
        x = 3
    return x


def else_after_a_jump(x):
    for k in range(3):
        try:
            if k == x:
                return k
            if x < 0:
                break
        except ValueError:
            note("failed")
        else:
            note("else")
    return "end"


def what_break_leaves(x):
    items = iter([1, 2, 3, 4])
    for item in items:
        if item == x:
            break
    return list(items)


def held_back(x):
    y = 0
    with Fails(suppress=True):
        if x:
            y = 1
            raise ValueError
        y = 2
    try:
        if x:
            y += 10
            raise KeyError
        y = 3
    except KeyError:
        note(y)
    return y


def jump_that_fails(x):
    try:
        for _ in range(2):
            with Fails():
                if x:
                    return 1
    except ValueError as error:
        note(str(error))
    return 2


def deletes(x):
    box = {1: 1, 2: 2}
    for k in range(3):
        scratch = x + k
        x += scratch
        del scratch, box[1]
        box[1] = k
    if x > 8:
        del box
        box = x
    return x, box


def assigns_in_tests(x):
    if (y := x * 2) > 3:
        x = y + 1
    while (x := x - 2) > 0:
        if (z := x % 3) == 1:
            continue
        note((x, z))
    return x, y


def changed_by_a_closure(n):
    total = 0

    def add(k):
        nonlocal total
        if k % 2:
            total += k
        else:
            total = total - 1

    for k in range(n):
        add(k)
        if k == 3:
            add(k)
    while total > 4:
        add(0)
    return total


def matches(x):
    out = []
    for k in range(4):
        match (k, x):
            case (0, _):
                continue
            case (1, value) if value > 1 and value < 9:
                out.append(value)
            case (2, 3):
                break
            case (_, rest):
                out.append((k, rest))
    return out


CASES = [
    *((deletes, (x,)) for x in (0, 2)),
    *((assigns_in_tests, (x,)) for x in (0, 1, 2, 9)),
    *((changed_by_a_closure, (n,)) for n in (0, 3, 8)),
    *((matches, (x,)) for x in (0, 3, 9)),
    *((loop_else_without_break, (n,)) for n in (0, 3, 60)),
    *((after_the_end, (x,)) for x in (0, 2, 3)),
    *((else_after_a_jump, (x,)) for x in (-1, 1, 5)),
    *((what_break_leaves, (x,)) for x in (2, 9)),
    *((held_back, (x,)) for x in (0, 1)),
    *((jump_that_fails, (x,)) for x in (0, 1)),
    *((early, (x,)) for x in (-1, 0, 2, 3, 9)),
    *((falls_off, (x,)) for x in (0, 1)),
    *((nested_return, (x,)) for x in (-2, 3, 9)),
    *((search, (xs, w)) for xs in ([], [1, 2, -3, 4]) for w in (2, 4, 7)),
    *((breaking, (n,)) for n in range(8)),
    *((whiles, (n,)) for n in (1, 3, 7, 27)),
    *((values, v) for v in ((0, 1, 2), (1, 2, 2), (3, 2, 1), (1, 0, 5))),
    *((tries, (x,)) for x in range(5)),
    *((fails, (x,)) for x in (0, 1)),
    *((inner_functions, (n,)) for n in (0, 3, 5)),
    (swaps, (4,)),
    (swaps, (40, 1, 2)),
    *((partial, (x,)) for x in (True, False)),
    *((returns_in_with_loop, (n,)) for n in (1, 3, 9)),
    *((power, (n,)) for n in (1, 3)),
    *((lambdas, (n,)) for n in (1, 3)),
]
