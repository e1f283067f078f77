"""What becomes of each public function of NumPy in a compiled function: ``python -m tests.coverage.report`` writes
`docs/coverage.md`."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np

from numstax.errors import NumstaxError
from numstax.ir.draws import drawn
from numstax.records import record
from numstax.trace.tracer import trace
from tests.coverage.calls import SECTIONS, Call, arguments

DOCUMENT = Path(__file__).parents[2] / "docs" / "coverage.md"
_HEAD = """# Coverage of NumPy

What becomes of a call inside a compiled function, for NumPy {version}. *Compiled*: part of the fused code. *Called*:
the compiled function calls NumPy's own, with everything around it compiled. *Refused*: by name, with the reason; such
a function runs as plain NumPy (under `strict=True` it raises). Each line was tried with one call, shown where calls
of one function differ. `make coverage` writes this file; a test runs every call against NumPy.

SciPy: ufuncs of `scipy.special` that are operations of the graph are compiled, all other functions are called.
Functions that call a Python function back (`scipy.optimize`) are refused.

Where the size of a result depends on values, what follows is compiled for every size. A mask that selects (`a[m]`) is
compiled into what is done with the selection, where that does not need the elements side by side.

Of the methods of a generator, those below are compiled where it draws from PCG64 (as `default_rng` does), on the CPU;
for other generators, and on GPUs, all of them are called.
"""


@record
class Outcome:
    """kind: 'compiled', 'called' or 'refused', then with the reason."""

    kind: str
    reason: str = ""


def outcome(call: Call) -> Outcome:
    given = arguments()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            graph = trace(call.function(), [given[k] for k in call.letters], {}).graph
    except NumstaxError as error:
        return Outcome("refused", f"{error.what}; {error.remedy}" if error.remedy else error.what)
    called = any(node.op == "extern" and not drawn(node) for node in graph.nodes())
    return Outcome("called" if called else "compiled")


def render() -> str:
    found = {title: [(c, outcome(c)) for c in calls if c.exists] for title, calls in SECTIONS.items()}
    parts = [_HEAD.format(version=_version()), _totals([row for rows in found.values() for row in rows])]
    for title, rows in found.items():
        parts.append(f"## {title}\n")
        parts += _section(rows)
    return "\n".join(parts)


def _section(found: list[tuple[Call, Outcome]]) -> Iterator[str]:
    by_name = {name: list(rows) for name, rows in groupby(found, lambda row: row[0].name)}
    whole = {n: rows for n, rows in by_name.items() if len({o.kind for _, o in rows}) == 1}
    for kind in ("compiled", "called"):
        names = [f"`{_short(n)}`" for n, rows in whole.items() if rows[0][1].kind == kind]
        if names:
            yield textwrap.fill(f"{kind.capitalize()} ({len(names)}): {', '.join(names)}.", 118) + "\n"
    mixed = [row for n, rows in by_name.items() if n not in whole for row in rows]
    refused = [rows[0] for rows in whole.values() if rows[0][1].kind == "refused"]
    if mixed:
        yield "| call | |\n| --- | --- |"
        yield from (f"| `{_code(c)}` | {o.kind}{': ' if o.reason else ''}{o.reason} |" for c, o in mixed)
        yield ""
    if refused:
        yield f"Refused ({len(refused)}):\n\n| function | reason and remedy |\n| --- | --- |"
        yield from (f"| `{_short(c.name)}` | {o.reason} |" for c, o in refused)
        yield ""


def _totals(rows: list[tuple[Call, Outcome]]) -> str:
    kinds: dict[str, set[str]] = {}
    for call, found in rows:
        kinds.setdefault(call.name, set()).add(found.kind)
    counts = [f"{sum(k == {kind} for k in kinds.values())} {kind}" for kind in ("compiled", "called", "refused")]
    return f"In all {', '.join(counts)}, {sum(len(k) > 1 for k in kinds.values())} one or the other.\n"


def _short(name: str) -> str:
    return name.removeprefix("np.").removeprefix("ndarray.").removeprefix("Generator.")


def _code(call: Call) -> str:
    return call.text.rstrip(";").replace("|", "\\|")


def _version() -> str:
    return ".".join(np.__version__.split(".")[:2])


def is_for_this_numpy() -> bool:
    return f"NumPy {_version()}" in DOCUMENT.read_text()


if __name__ == "__main__":
    DOCUMENT.write_text(render())
