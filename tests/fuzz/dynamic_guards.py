"""Looks for a size that passes the guards of a dynamic artifact and gives a wrong answer.

    python -m tests.fuzz.dynamic_guards --seconds 60 [--seed N]

Random programs that read, compare and compute with sizes run at random sizes, each once with NumPy and once with
one ``jit(dynamic=True)`` function that keeps its artifacts from size to size.
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
)


@dataclass
class Program:
    """A random function of (a, b, c, k): two vectors, a matrix and a number; `text` is its source."""

    rng: random.Random
    text: str = ""
    function: Callable[..., object] = field(init=False)

    def __post_init__(self) -> None:
        steps = self.rng.choices(STEPS, k=self.rng.randint(1, 6))
        body = [s.format(n=self.rng.randint(1, 6), axis=self.rng.randint(0, 1)) for s in steps]
        self.text = "\n    ".join(["def program(a, b, c, k):", *body, "return a, b.sum(), c.shape, k"])
        scope: dict[str, object] = {"np": np}
        exec(compile(self.text, "<program>", "exec"), scope)
        self.function = scope["program"]  # type: ignore[assignment]

    def arguments(self) -> tuple[object, ...]:
        rng = self.rng
        n, m, rows, columns = (rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13)) for _ in range(4))
        if rng.random() < 0.5:
            m = n
        if rng.random() < 0.3:
            rows = columns
        values = np.random.default_rng(rng.randint(0, 99))
        matrix = values.random((rows, columns + 1))
        layouts = (matrix[:, :-1].copy(), matrix[:, :-1], matrix[:, :-1].copy().T, matrix[::-1, 1:].copy()[::-1])
        vector = values.random(2 * n)[::2] if rng.random() < 0.2 else values.random(n)
        return vector, values.random(m), rng.choice(layouts), rng.randint(1, 6)


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


def check(program: Program, calls: int) -> str:
    """Run one program at several sizes; '' or what went wrong."""
    compiled = numstax.jit(program.function, dynamic=True, strict=True)
    for _ in range(calls):
        arguments = program.arguments()
        kind, want, after = outcome(program.function, arguments)
        try:
            got_kind, got, got_after = outcome(compiled, arguments)
        except TraceError:
            return ""
        if kind != got_kind or (kind == "value" and not (_same(got, want) and _same(got_after, after))):
            shown = [f"{a.shape} strides {a.strides}" if isinstance(a, np.ndarray) else a for a in arguments]
            return f"{program.text}\narguments {shown}\nwanted {kind} {want}\ngot {got_kind} {got}\n" + "\n".join(
                map(str, compiled.artifacts())
            )
    return ""


def _same(got: object, want: object) -> bool:
    if isinstance(want, tuple):
        return isinstance(got, tuple) and len(got) == len(want) and all(map(_same, got, want))
    if not isinstance(want, np.ndarray | np.generic):
        return type(got) is type(want) and got == want
    g, w = np.asarray(got), np.asarray(want)
    return g.shape == w.shape and g.dtype == w.dtype and np.allclose(g, w, rtol=1e-9, atol=1e-9, equal_nan=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.dynamic_guards")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**6)
    options = parser.parse_args()
    end, count, failed = time.monotonic() + options.seconds, 0, 0
    while time.monotonic() < end:
        wrong = check(Program(random.Random(options.seed + count)), 12)
        if wrong:
            failed += 1
            sys.stdout.write(f"seed {options.seed + count}:\n{wrong}\n")
        count += 1
    sys.stdout.write(f"{count} programs from seed {options.seed}: {failed or 'no'} wrong\n")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
