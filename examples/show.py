"""The command line that all examples share.

An example enters as its function `example` (size -> the compiled function and its arguments).  It runs compiled and as
plain NumPy on equal arguments; what was found and both times are printed; with ``--picture PATH`` it is drawn.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import time
from collections.abc import Callable
from typing import Any

SIZES = ("small", "medium")


def run(
    example: Callable[[str], tuple[Any, tuple]],
    found: Callable[[Any], str],
    draw: Callable[[Any, tuple, Any], None] | None = None,
) -> None:
    """`found` puts a result into words; `draw` draws on a matplotlib Figure, given the arguments and the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", choices=SIZES, default="small")
    if draw:
        parser.add_argument("--picture", help="where to save the picture, such as out.png (needs matplotlib)")
    options = parser.parse_args()
    if draw and options.picture and importlib.util.find_spec("matplotlib") is None:
        parser.error("--picture needs matplotlib: pip install matplotlib")
    compiled, arguments = example(options.size)
    result, first = timed(compiled, arguments)
    _, again = timed(compiled, arguments)
    _, plain = timed(compiled.__wrapped__, arguments)
    print(found(result))
    print(f"NumPy {plain:.4f} s, numstax {again:.4f} s: {plain / again:.1f} times (first call {first:.2f} s)")
    if draw and options.picture:
        save(options.picture, draw, arguments, result)


def timed(function: Callable[..., Any], arguments: tuple) -> tuple[Any, float]:
    """The result on a copy of the arguments, which the function may change, and the seconds taken."""
    own = copy.deepcopy(arguments)
    start = time.perf_counter()
    result = function(*own)
    return result, time.perf_counter() - start


def save(path: str, draw: Callable[[Any, tuple, Any], None], arguments: tuple, result: Any) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure, arguments, result)
    figure.savefig(path, dpi=120)
