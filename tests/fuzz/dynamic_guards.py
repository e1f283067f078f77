"""Looks for a size that passes the guards of a dynamic artifact and gives a wrong answer.

    python -m tests.fuzz.dynamic_guards --seconds 60 [--seed N]

Random programs that read, compare and compute with sizes run at random sizes, each once with NumPy and once with
one ``jit(dynamic=True)`` function that keeps its artifacts from size to size; where asked, also with artifacts made
for each size.

Results of both kinds of artifact are the same bits where every operation of the program is exact.  Elsewhere they
may differ in the last places: a sum over a known number of elements is added up in other groups.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

import numstax
from numstax.errors import TraceError

STEPS = (
    "a = a[1:] - a[:-1]",
    "a = a[:-2]",
    "a = a[k:]",
    "a = a[:k]",
    "a = a[-k:]",
    "a = a[::2]",
    "a = a[::-1]",
    "a = a[-2::-2]",
    "a = a[: a.shape[0] // 2]",
    "a = a[a.shape[0] // 3 : a.shape[0] - 1]",
    "a = a + a.shape[0]",
    "a = a * k",
    "a = a / (len(a) + 1)",
    "a = a - a.mean()",
    "a = a * a.shape[0] ** 0.5",
    "a = a + np.arange(a.shape[0])",
    "a = a + np.arange(1, 2 * a.shape[0] + 1, 2)",
    "a = np.where(np.arange(len(a)) < k, a, -1.0)",
    "a = np.zeros(a.shape) + a",
    "a = np.zeros(k) + a.sum()",
    "a = np.concatenate([a, a[:1]])",
    "a = np.concatenate([a, b])",
    "a = np.roll(a, 1)",
    "a = np.roll(a, k)",
    "a = np.pad(a, 1)",
    "a = np.pad(a, 1, mode='edge')",
    "a = np.tile(a, 2)",
    "a = np.repeat(a, 2)",
    "a = np.cumsum(a)",
    "a = np.sort(a)",
    "a = a + b",
    "a = a * c.shape[0] + c.shape[1]",
    "a = a + b if a.shape == b.shape else a - 1",
    "a = a + 1 if a.shape[0] > {n} else a * 2",
    "a = a * 3 if a.shape[0] % 2 == 0 else a",
    "a = a.reshape(-1, 2).sum(axis=1) if a.size % 2 == 0 else a",
    "a = a.reshape(2, -1)[0] if a.size % 2 == 0 and a.size else a",
    "a = a.max() + a if a.size else a",
    "a = a[a.shape[0] - 1] + a",
    "a = a[0] * a",
    "a = a[max(0, a.shape[0] - {n}):]",
    "a = a[:, None] * b[None, :3]\n    a = a.reshape(-1)",
    "a = (a[:, None] + c[:1, :1]).ravel()",
    "a = c.reshape(-1)",
    "a = c.T.reshape(-1)",
    "a = c.reshape(c.shape[1], -1)[:, 0]",
    "a = c.sum(axis={axis})",
    "a = c[:, 0] + c[:, -1]",
    "a = c.diagonal()",
    "a = (c @ c.T).sum(axis=0)",
    "a = np.eye(c.shape[0])[0] + c[:, 0]",
    "b = a",
    "b = b[1:]",
    "c = c[1:]",
    "c = c.T",
    "c = c + c.shape[1]",
    "c = np.outer(a, b)",
    "c = np.stack([a, a * 2])",
    "k = k + 1",
    "k = a.shape[0]",
    "k = a.shape[0] // k",
    "k = min(k, b.shape[0])",
    "a[1:] = 0.5",
    "a = a.copy()\n    a[: k] = 2.5",
    "a = a[np.flatnonzero(a > 0.5)]",
    "a = a[a > 0.5]",
    "a = a.copy()\n    a[a > 0.5] = 0.25",
    "a = np.unique(a) * 2",
    "a = a * a[a > 0.5].size",
    "a = b[b > 0.5] + (a[b > 0.5] if a.shape == b.shape else 0)",
    "c = c[c[:, 0] > 0.5]",
)


@dataclass
class Program:
    """A random function of (a, b, c, k): two vectors, a matrix and a number; `text` is its source."""

    rng: random.Random
    text: str = ""
    function: Callable[..., object] = field(init=False)
    exact: bool = field(init=False)
    """Does no operation round?  The arguments have seven bits, and each product doubles what is needed."""

    def __post_init__(self) -> None:
        steps = self.rng.choices(STEPS, k=self.rng.randint(1, 6))
        body = [s.format(n=self.rng.randint(1, 6), axis=self.rng.randint(0, 1)) for s in steps]
        self.text = "\n    ".join(["def program(a, b, c, k):", *body, "return a, b.sum(), c.shape, k"])
        scope: dict[str, object] = {"np": np}
        exec(compile(self.text, "<program>", "exec"), scope)
        self.function = scope["program"]  # type: ignore[assignment]
        rounds = any(sign in step for step in steps for sign in (" / ", "mean", "** 0.5"))
        self.exact = not rounds and sum("*" in step or "@" in step or "outer" in step for step in steps) <= 2

    def arguments(self) -> tuple[object, ...]:
        rng = self.rng
        n, m, rows, columns = (rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 67)) for _ in range(4))
        if rng.random() < 0.5:
            m = n
        if rng.random() < 0.3:
            rows = columns
        generator = np.random.default_rng(rng.randint(0, 99))

        def values(*shape: int) -> np.ndarray:
            return generator.integers(0, 128, shape) / 128

        matrix = values(rows, columns + 1)
        layouts = (matrix[:, :-1].copy(), matrix[:, :-1], matrix[:, :-1].copy().T, matrix[::-1, 1:].copy()[::-1])
        vector = values(2 * n)[::2] if rng.random() < 0.2 else values(n)
        return vector, values(m), rng.choice(layouts), rng.randint(1, 6)


def outcome(function: Callable[..., object], arguments: tuple[object, ...]) -> tuple[str, object, object]:
    """What a call gives: ('value' or the kind of error, result, arguments afterwards)."""
    copies = tuple(_copied(a) if isinstance(a, np.ndarray) else a for a in arguments)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return "value", function(*copies), copies
    except TraceError:
        raise
    except Exception as error:  # a crash of ours is as wrong as a value
        return "error", repr(error), None


def _copied(array: np.ndarray) -> np.ndarray:
    """The same elements in new memory laid out alike."""
    owner = array if array.base is None else array.base
    offset = array.ctypes.data - owner.ctypes.data
    return np.ndarray(array.shape, array.dtype, owner.copy(order="K"), offset, array.strides)


def check(program: Program, calls: int, static: bool = False) -> str:
    """Run one program at several sizes; '' or what went wrong.  `static`: also with artifacts for each size."""
    compiled = {"dynamic": numstax.jit(program.function, dynamic=True, strict=True)}
    if static:
        compiled["static"] = numstax.jit(program.function, strict=True)
    for _ in range(calls):
        arguments = program.arguments()
        want = outcome(program.function, arguments)
        for name, function in compiled.items():
            try:
                got = outcome(function, arguments)
            except TraceError:
                return ""
            if got[0] != want[0] or (got[0] == "value" and not _same(got[1:], want[1:], program.exact)):
                shown = [f"{a.shape} strides {a.strides}" if isinstance(a, np.ndarray) else a for a in arguments]
                lines = program.text, f"arguments {shown}", f"wanted {want[:2]}", f"{name} gave {got[:2]}"
                return "\n".join((*lines, *map(str, function.artifacts())))
    return ""


def _same(got: object, want: object, exact: bool) -> bool:
    if isinstance(want, tuple):
        same = isinstance(got, tuple) and len(got) == len(want)
        return same and all(_same(g, w, exact) for g, w in zip(got, want, strict=True))  # type: ignore[arg-type]
    if not isinstance(want, np.ndarray | np.generic):
        return type(got) is type(want) and got == want
    g, w = np.asarray(got), np.asarray(want)
    if g.shape != w.shape or g.dtype != w.dtype:
        return False
    return g.tobytes() == w.tobytes() if exact else np.allclose(g, w, rtol=1e-9, atol=1e-9, equal_nan=True)


def hunt(seed: int, seconds: float, calls: int = 12) -> tuple[int, list[str]]:
    """How many programs ran in that time of the processor, and what went wrong, each with its seed, which is also
    printed at once."""
    end, count, wrong = time.process_time() + seconds, 0, []
    while time.process_time() < end:
        found = check(Program(random.Random(seed + count)), calls)
        if found:
            wrong.append(f"seed {seed + count}:\n{found}")
            sys.stdout.write(f"{wrong[-1]}\n")
            sys.stdout.flush()
        count += 1
    return count, wrong


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.dynamic_guards")
    parser.add_argument("--seconds", type=float, default=60, help="of the processor, in all threads")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    options = parser.parse_args()
    count, wrong = hunt(options.seed, options.seconds)
    sys.stdout.write(f"{count} programs from seed {options.seed}: {len(wrong) or 'no'} wrong\n")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
