"""`fori_loop`, `while_loop`, `cond`, `scan` and `vmap`: loops, branches and batches as functions of functions.

States and arguments are trees: tuples, lists, dicts, named tuples and dataclasses of arrays and numbers.  The
functions are plain Python, and run so outside of a trace.  Inside, the tracer reads their source as it reads the
user's, so that a loop here is captured, or unrolled where it is short, by the same rules as a loop that the user
writes; their contract, that a state keeps its type, holds in either case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from numstax.trace.batches import Rows, carried, collected, empty, moved, stored
from numstax.trace.tracer import trace


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """``for i in range(lower, upper): state = body(i, state)``, beginning with `init`; the last state.

    Parameters
    ----------
    lower, upper : integers, which may be traced (``0, x.shape[0]``, ``0, n[0]``).  No iteration where upper <= lower.
    body : (i, state) -> state.  `i` is an integer of the range; it may be an index, a bound of a slice, or a number.
    init : a tree of arrays and numbers of any shapes and dtypes.

    Every state has the structure, shapes and dtypes of `init`; a Python number in `init` takes the dtype that the
    body gives, if that is of its kind or wider (``0`` becomes float64, ``0.0`` does not become int64).

    Raises
    ------
    StateError : the body gives a state of another structure, shape or dtype.

    Examples
    --------
    >>> numstax.fori_loop(0, 5, lambda i, s: s + i, 0)
    10
    """
    for i in range(lower, upper):
        init = carried(init, body(i, init))
    return init


def while_loop(cond: Callable[[Any], Any], body: Callable[[Any], Any], init: Any) -> Any:
    """``while cond(state): state = body(state)``, beginning with `init`; the first state for which `cond` is false.

    Parameters
    ----------
    cond : state -> a bool, a number, or an array with one element.
    body : state -> state.
    init : a tree of arrays and numbers; states keep its structure, shapes and dtypes as in `fori_loop`.

    Raises
    ------
    StateError : the body gives a state of another structure, shape or dtype.
    ValueError : `cond` gives an array with several elements.

    Examples
    --------
    >>> numstax.while_loop(lambda s: s < 100, lambda s: s * 3, 1)
    243
    """
    while cond(init):
        init = carried(init, body(init))
    return init


def cond(pred: Any, then: Callable[..., Any], orelse: Callable[..., Any], *operands: Any) -> Any:
    """``then(*operands)`` where `pred` is true, else ``orelse(*operands)``.  Only one of them runs.

    Parameters
    ----------
    pred : a bool, a number, or an array with one element.
    then, orelse : functions of the operands.  Where `pred` is traced, both give trees of one structure, with the same
        shapes and dtypes.
    operands : anything.

    Raises
    ------
    TraceError : `pred` is traced, and the results of the two functions differ in structure, shape or dtype.
    ValueError : `pred` has several elements.

    Examples
    --------
    >>> numstax.cond(2 > 1, np.add, np.subtract, 5, 3)
    np.int64(8)
    """
    if pred:
        result = then(*operands)
    else:
        result = orelse(*operands)
    return result


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """A loop over the rows of `xs` that carries a state and collects a result in each iteration.

    Parameters
    ----------
    f : (state, x) -> (state, y).
    init : the first state, a tree; states keep its structure, shapes and dtypes as in `fori_loop`.
    xs : a tree of arrays of shapes ``(n, ...)``; `x` is the same tree of their rows ``a[k]``.  None: `x` is None.
    length : n, which is needed where `xs` is None.
    reverse : go from the last row to the first; row k of the results still belongs to row k of `xs`.

    Returns
    -------
    (state, ys) : the last state, and `y` of every iteration: for each array or number in `y` of shape ``s``, an array
        of shape ``(n, *s)``, in the structure of `y`.  None in `y` is None in `ys`.

    Raises
    ------
    StateError : a state, or a result, differs from the one before in structure, shape or dtype.
    ShapeError : arrays in `xs` differ in n, or from `length`.
    AxisError : `xs` holds a number or an array without axes.
    ArgumentCountError : neither `xs` nor `length` says how many iterations there are.

    Examples
    --------
    >>> numstax.scan(lambda total, x: (total + x, total * x), 0.0, np.arange(4.0))
    (np.float64(6.0), array([0., 0., 2., 9.]))
    """
    rows = Rows.of(xs, 0, "xs", length)
    count = rows.count
    ys = collected(lambda k: f(init, rows.at(k))[1], count)
    for k in range(count):
        at = count - 1 - k if reverse else k
        state, y = f(init, rows.at(at))
        init = carried(init, state)
        ys = stored(ys, at, y, count)
    if ys is None:
        ys = _no_results(f, init, rows.zeros())[1]
    return init, ys


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function of batches: `f` of every element, with the results stacked.

    Inside `jit` it becomes one loop over the batch, whose iterations are shared out among the threads;
    ``numstax.jit(numstax.vmap(f))`` compiles a batched function.

    Parameters
    ----------
    f : a function of arrays and numbers, in trees, that gives such a tree.
    in_axes : the axis of the arguments along which their elements lie; None: every element has the whole argument.
        One for all, or a tuple with an item for each argument, which may be a tree like the argument.
    out_axes : the axis of the results along which elements lie; one for all, or a tree like the result.

    Returns
    -------
    A function of the same positional arguments.  An argument of shape ``s`` for `f` has shape ``(n, *s)`` (for
    in_axes 0), and so have results, in the dtypes that `f` gives.

    Raises (when it is called)
    ------
    ArgumentCountError : `in_axes` does not fit the arguments, or is None for all of them.
    AxisError : an argument has no such axis.
    ShapeError : the arguments have batches of different sizes.
    StateError : results of `f` differ in structure, shape or dtype.
    TraceError : the batch is empty, and `f` cannot be traced to find out what it would give.

    Examples
    --------
    >>> numstax.vmap(np.dot)(np.ones((3, 2)), np.ones((3, 2)))
    array([2., 2., 2.])
    """

    def batch(*args: Any) -> Any:
        rows = Rows.of(args, in_axes, "args")
        count = rows.count
        results = collected(lambda k: f(*rows.at(k)), count)
        for k in range(count):
            results = stored(results, k, f(*rows.at(k)), count)
        if results is None:
            results = _no_results(f, *rows.zeros())
        return moved(results, out_axes)

    batch.__name__ = getattr(f, "__name__", "function")
    batch.__doc__ = f.__doc__
    return batch


def _no_results(f: Callable[..., Any], *args: Any) -> Any:
    """What zero calls give: shapes and dtypes are those that a trace finds."""
    traced = trace(lambda *given: f(*given), args, {})
    outputs = [np.zeros([n.value or 0 for n in o.node.shape], o.node.dtype) for o in traced.graph.outputs]
    return empty(traced.unflatten(outputs), 0)
