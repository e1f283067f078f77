"""Lanes that part and meet again do what each thread does alone: random programs against Python, thread by thread."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from numstax.runtime.simulate import run
from tests.simulate.handwritten import program

THREADS = 40
NAMES = ("a", "b", "c")
CONDITIONS = ("a > b", "t % 3 == {k}", "b & 1 == 0", "c < {k} and a > c", "t < {k} or b == a", "{k} > 4", "not c > {k}")
VALUES = ("a + {k}", "t - b", "c * {k} % 7", "(a if t > {k} else b)", "b ^ a", "(c + 1 if a > {k} and b > c else {k})")


@st.composite
def blocks(draw, depth, loops=0):
    lines = []
    for _ in range(draw(st.integers(1, 4))):
        k = draw(st.integers(0, 9))
        kind = draw(st.sampled_from("===+if?fw" if depth else "===+"))
        if kind == "=":
            lines.append(f"{draw(st.sampled_from(NAMES))} = {draw(st.sampled_from(VALUES)).format(k=k)}")
        elif kind == "+":
            lines.append(f"{draw(st.sampled_from(NAMES))} += {k}")
        else:
            inner = depth - 1
            condition = draw(st.sampled_from(CONDITIONS)).format(k=k)
            if kind == "i":
                lines += [f"if {condition}:", *indented(draw(blocks(inner, loops)))]
                if draw(st.booleans()):
                    lines += ["else:", *indented(draw(blocks(inner, loops)))]
            elif kind == "?":
                jump = draw(st.sampled_from(["return", *(["break", "continue"] if loops else [])]))
                lines += [f"if {condition}:", f"    {jump}"]
            elif kind == "f":
                bounds = draw(st.sampled_from(["{k}", "t % 4", "t % 3, {k}", "5, t % 5, -1", "0, {k}, 2"])).format(
                    k=k % 5
                )
                counter = f"k{depth}"
                body = [f"c += {counter}", *draw(blocks(inner, loops + 1))]
                lines += [f"for {counter} in range({bounds}):", *indented(body)]
            else:
                n = f"n{depth}"
                body = [f"{n} = {n} - 1", *draw(blocks(inner, loops + 1))]
                lines += [f"{n} = t % {k + 1}", f"while {n} > 0:", *indented(body)]
    return lines


def indented(lines):
    return ["    " + line for line in lines]


def alone(text):
    """The program run by Python for one thread after another."""
    scope = {}
    exec(text.replace("(out0):", "(out0, t):").replace("    t = thread_x()\n", ""), scope)
    out = np.zeros(3 * THREADS, np.int64)
    for thread in range(THREADS):
        scope["k"](out, thread)
    return out


@settings(max_examples=150)
@given(blocks(3))
def test_random_programs(lines):
    stores = [f"out0[t*3 + {k}] = {name}" for k, name in enumerate(NAMES)]
    body = ["t = thread_x()", *(f"{name} = {k} + t % 5" for k, name in enumerate(NAMES)), *stores, *lines, *stores]
    text = "def k(out0):\n" + "\n".join(indented(body)) + "\n"
    out = np.zeros(3 * THREADS, np.int64)
    run(program(text, THREADS, out0="i8"), [out])
    assert out.tolist() == alone(text).tolist()
