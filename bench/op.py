"""Single operations beside NumPy, out of cache and in it.

python -m bench.op [--only exp sum] [--dtype float64]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from bench import timing

UNARY = "sqrt exp exp2 expm1 log log1p log2 sin cos tan tanh sinh arctan cbrt absolute floor sign square".split()
BINARY = "add multiply divide power maximum arctan2 hypot floor_divide remainder".split()
SIZES = {"cache": 1 << 14, "memory": 1 << 22}
_ROWS: dict[str, Callable[..., object]] = {
    **{name: getattr(np, name) for name in (*UNARY, *BINARY)},
    "sum": lambda x: x.sum(),
    "mean axis 0": lambda x: x.reshape(256, -1).mean(0),
    "max axis 1": lambda x: x.reshape(256, -1).max(1),
    "std": lambda x: x.std(),
    "argmax": lambda x: x.argmax(),
    "cumsum": np.cumsum,
    "where": lambda x, y: np.where(x > y, x, y),
    "transpose copy": lambda x: x.reshape(256, -1).T.copy(),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "take": lambda x, y: x[(y * (x.size - 1)).astype(np.int64) % x.size],
    "astype": lambda x: x.astype(np.int32),
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.op", description="single operations beside NumPy")
    parser.add_argument("--only", nargs="*", choices=list(_ROWS))
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", help="record the results as bench/results/NAME.json")
    options = parser.parse_args(argv)
    timing.clean_environment(options.threads)
    rows = []
    for name in options.only or _ROWS:
        for place, size in SIZES.items():
            rows.append({"op": name, "place": place, **measure(_ROWS[name], size, options.dtype, options.rounds)})
    timing.print_table(
        ["op", "size", "NumPy us", "numstax us", "ratio"],
        [[r["op"], r["place"], f"{r['numpy'] * 1e6:.1f}", f"{r['numstax'] * 1e6:.1f}", _ratio(r)] for r in rows],
    )
    mean = timing.geometric_mean(r["numpy"] / r["numstax"] for r in rows)
    print(f"\ngeometric mean: {mean:.2f} times NumPy")
    if options.name:
        print(timing.record(options.name, rows, threads=options.threads, dtype=options.dtype))


def measure(function: Callable[..., object], size: int, dtype: str, rounds: int) -> dict[str, float]:
    import numstax

    names = ("x", "y")[: 2 if function in _two() else 1]
    rng = np.random.default_rng(0)
    sets = [
        [rng.uniform(0.05, 0.95, size).astype(dtype) for _ in names]
        for _ in range(timing.set_count(size * 8 * len(names), size == SIZES["memory"]))
    ]
    wrapped = _named(function, len(names))
    compiled = numstax.jit(wrapped, strict=True)
    np.testing.assert_allclose(compiled(*sets[0]), wrapped(*sets[0]), rtol=1e-4)
    calls = {"numpy": timing.rotating(wrapped, sets), "numstax": timing.rotating(compiled, sets)}
    return timing.medians(calls, rounds, 0.02, patience=10)


def _two() -> set[Callable[..., object]]:
    return {_ROWS[n] for n in (*BINARY, "where", "concatenate", "take")}


def _named(function: Callable[..., object], arity: int) -> Callable[..., object]:
    """A Python function of one or two arguments: a ufunc has no signature to trace."""
    return (lambda x: function(x)) if arity == 1 else (lambda x, y: function(x, y))


def _ratio(row: dict) -> str:
    return f"{row['numpy'] / row['numstax']:.2f}"


if __name__ == "__main__":
    main()
