"""Reading and assigning items: basic indices as views, integer arrays as gathers and scatters, masks as choices.

Integers with known values count as integers, and so do sizes that are known to lie inside the axis; other integers
are positions that the run checks.  Integer arrays mixed with slices place their dimensions as NumPy does.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import OutOfBoundsError, ShapeError, UnsupportedOperationError
from numstax.ir.graph import Node
from numstax.ir.index import ONE, ZERO, Index, as_index
from numstax.records import record
from numstax.trace import extern, host
from numstax.trace.array import TracedArray
from numstax.trace.clamped import depends_on_counter, positive
from numstax.trace.elements import stored
from numstax.trace.environment import ShapeEnvironment
from numstax.trace.origin import user_origin
from numstax.trace.scopes import in_body
from numstax.trace.selection import Selection, selected
from numstax.trace.sizes import Shape, Size, shown, size_of, text
from numstax.trace.views import PickView, ReshapeView, SliceView

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder


@record
class _Item:
    """One entry of an expanded key: kind 'int', 'slice', 'new', 'array' (integers) or 'mask'."""

    kind: str
    value: Any = None

    @property
    def axes(self) -> int:
        """How many axes of the array it uses up."""
        return {"new": 0, "mask": self.value.ndim if self.kind == "mask" else 0}.get(self.kind, 1)


def getitem(rec: Recorder, x: TracedArray, key: object) -> TracedArray | Selection:
    items, has_ellipsis = _expand(rec, x, key)
    kinds = [i.kind for i in items]
    if "mask" in kinds:
        if kinds.count("mask") == 1 and not {"array", "int"} & {*kinds}:
            return _select(rec, x, items, kinds.index("mask"))
        items = [part for k, item in enumerate(items) for part in _nonzero(rec, x, items, k)]
        kinds.append("array")
    if "array" in kinds:
        return _gather(rec, x, items)
    view = _basic(rec, x, items)
    if not view.sizes and not has_ellipsis:
        return rec.fresh(view.node, is_scalar=True)
    return view


def setitem(rec: Recorder, x: TracedArray, key: object, value: object) -> None:
    if x.is_scalar:
        raise TypeError(f"'{x.dtype.type.__module__}.{x.dtype.type.__name__}' object does not support item assignment")
    items, _ = _expand(rec, x, key)
    kinds = {i.kind for i in items}
    if "mask" in kinds:
        if _assign_mask(rec, x, items, value):
            return
        if not in_body(rec):
            args = (x, encode_key(rec, key), stored(rec, value, x.dtype))
            x.store(extern.call(rec, host.setitem, args, {}).node)
            return
        items = [part for k in range(len(items)) for part in _nonzero(rec, x, items, k)]
    if {"mask", "array"} & kinds:
        places = _places(rec, x, items)
        if not places.view:
            places.put(rec, _fitted(rec, value, x.dtype, places.shape))
            return
        target = places.base.derive(places.view)
    else:
        target = _basic(rec, x, items)
    if isinstance(value, TracedArray) and value.storage is target.storage and value.views == target.views:
        return
    target.store(fitted(rec, value, target))


def scatter(rec: Recorder, op: str, x: TracedArray, key: object, value: object) -> bool:
    """``ufunc.at(x, key, value)`` for the binary ufunc `op`; False when it takes a library call."""
    items, _ = _expand(rec, x, key)
    kinds = {i.kind for i in items}
    if "mask" in kinds:
        return False
    if "array" not in kinds:
        target = _basic(rec, x, items)
        target.store(rec.nodes.elementwise(op, (target.node, fitted(rec, value, target)), x.dtype))
        return True
    places = _places(rec, x, items)
    places.put(rec, _fitted(rec, value, x.dtype, places.shape), op)
    return True


def fitted(rec: Recorder, value: object, target: TracedArray) -> Node:
    """The value cast and broadcast to what `target` holds; extra leading dimensions of one are dropped."""
    return _fitted(rec, value, target.dtype, target.sizes)


def _fitted(rec: Recorder, value: object, dtype: np.dtype, shape: Shape) -> Node:
    node = stored(rec, value, dtype).node
    while len(node.shape) > len(shape) and node.shape[0] is ONE:
        node = rec.nodes.reshape(node, node.shape[1:])
    if not rec.shapes.fits(node.shape, shape):
        raise ShapeError(
            f"could not broadcast input array from shape {text(node.shape)} into shape {text(shape)}", user_origin()
        )
    return rec.nodes.broadcast(node, shape)


# --- the key ----------------------------------------------------------------------------------------


def _expand(rec: Recorder, x: TracedArray, key: object) -> tuple[list[_Item], bool]:
    """The key with one item per axis of `x` (and one per new axis); the ellipsis is filled in."""
    parts = key if isinstance(key, tuple) else (key,)
    items: list[_Item] = []
    ellipsis_at: int | None = None
    for part in parts:
        if part is Ellipsis:
            if ellipsis_at is not None:
                raise OutOfBoundsError("an index can only have a single ellipsis ('...')", user_origin())
            ellipsis_at = len(items)
        else:
            items.append(_item(rec, part))
    used = sum(i.axes for i in items)
    if used > x.ndim:
        raise OutOfBoundsError(
            f"too many indices for array: array is {x.ndim}-dimensional, but {used} were indexed", user_origin()
        )
    at = len(items) if ellipsis_at is None else ellipsis_at
    items[at:at] = [_Item("slice", slice(None))] * (x.ndim - used)
    settled: list[_Item] = []
    axis = 0
    for item in items:
        settled += _settled(rec, x, item, axis)
        axis += item.axes
    return settled, ellipsis_at is not None


def _settled(rec: Recorder, x: TracedArray, item: _Item, axis: int) -> list[_Item]:
    """The item, now that the axis which it is for is known: a mask with known values is the places of its Trues."""
    if type(item.value) is Size and _is_undecided(rec.shapes, item.value.index, x.sizes[axis]):
        return [_Item("array", rec.lift(item.value))]
    known = rec.known(item.value.node) if item.kind == "mask" and item.value.ndim else None
    if known is None:
        return [item]
    _mask_fits(x, item.value, axis)
    return [_Item("array", rec.lift(places)) for places in np.nonzero(known)]


def _is_undecided(shapes: ShapeEnvironment, k: Index, size: Index) -> bool:
    """Will only the run tell where the integer lies in the axis?"""
    if shapes.has_hint(k, size):
        return False
    sign = shapes.known(">=", k)
    end = size - 1 - k if sign else k + size
    return sign is None or not shapes.known(">=", end)


def _item(rec: Recorder, part: object) -> _Item:
    if part is None:
        return _Item("new")
    if isinstance(part, slice):
        return _Item("slice", part)
    if type(part) in (int, Size):
        return _Item("int", part)
    if isinstance(part, bool | np.bool_):
        raise UnsupportedOperationError("indexing with a single boolean cannot be compiled", user_origin())
    if type(part) in (TracedArray, Selection):
        return _array_item(rec, rec.lift(part))
    if isinstance(part, list | tuple) and not part:
        part = np.zeros(0, np.int64)
    if isinstance(part, np.ndarray | list | tuple):
        return _array_item(rec, rec.lift(part))
    try:
        return _Item("int", operator.index(part))  # type: ignore[arg-type]
    except TypeError:
        raise OutOfBoundsError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays "
            "are valid indices",
            user_origin(),
        ) from None


def _array_item(rec: Recorder, part: TracedArray) -> _Item:
    kind = dtypes.kind(part.dtype)
    if kind not in "biu":
        raise OutOfBoundsError("arrays used as indices must be of integer (or boolean) type", user_origin())
    if kind == "b":
        return _Item("mask", part)
    known = None if part.sizes else rec.known(part.node)
    return _Item("array", part) if known is None else _Item("int", int(known))


def encode_key(rec: Recorder, key: object) -> tuple[Hashable, ...]:
    """The key as `host` takes it."""
    out: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, slice):
            ends = (None if p is None else size_of(p) for p in (part.start, part.stop, part.step))
            out.append(("slice", *ends))
        elif part is None or part is Ellipsis or type(part) is int:
            out.append(part)
        elif type(part) is Size:
            out.append(part.index)
        else:
            out.append(rec.lift(part))
    return tuple(out)


# --- basic indices ----------------------------------------------------------------------------------


def _wrap(shapes: ShapeEnvironment, k: Index, axis: int, size: Index) -> Index:
    """The index counted from the start of the axis."""
    if shapes.at_least(k, 0):
        start, inside = k, shapes.at_least(size - 1, k)
    else:
        start, inside = k + size, shapes.at_least(k + size, 0)
    if not inside:
        message = f"index {shown(k)} is out of bounds for axis {axis} with size {shown(size)}"
        raise OutOfBoundsError(message, user_origin())
    return start


def count_steps(shapes: ShapeEnvironment, start: Index, stop: Index, step: Index) -> Index:
    """How many of start, start + step, ... lie before stop."""
    sign = 1 if shapes.at_least(step, 1) else -1
    span = shapes.resolve(stop - start) * sign
    return (span - 1) // shapes.resolve(step * sign) + 1 if shapes.at_least(span, 0) else ZERO


def _range(shapes: ShapeEnvironment, part: slice, size: Index) -> tuple[Index, Index, Index, slice]:
    """Start, step and number of elements of a slice of an axis, and a slice with the same elements."""
    step = ONE if part.step is None else size_of(part.step)
    if shapes.equal(step, 0):
        raise ShapeError("slice step cannot be zero", user_origin())
    forward = shapes.at_least(step, 1)
    first, last = (ZERO, size) if forward else (as_index(-1), size - 1)

    def clamped(bound: Any, default: Index) -> Index:
        if bound is None:
            return default
        at = size_of(bound)
        if not shapes.at_least(at, 0):
            at = at + size
            return at if shapes.at_least(at, first) else first
        return at if shapes.at_least(last, at) else last

    start, stop = clamped(part.start, first if forward else last), clamped(part.stop, last if forward else first)
    # a start of -1, before the first element, would mean the last one in the slice, unless there is none
    starts_inside = forward or part.start is None or shapes.at_least(start, 0)
    count = count_steps(shapes, start, stop, step) if starts_inside else ZERO
    if count is ZERO:
        return ZERO, ONE, ZERO, slice(0, 0)
    return start, step, count, slice(start, stop if forward or shapes.at_least(stop, 0) else None, step)


def _open_range(rec: Recorder, part: slice, size: Index) -> tuple[Index, Index, Index, slice] | None:
    """As `_range`, where the size depends on values and may be less than what the slice names: ``x[mask][:3]``.

    The start may then lie beyond the elements, of which there are none.  None where `_range` can tell.
    """
    shapes = rec.shapes
    size, step = shapes.resolve(size), ONE if part.step is None else size_of(part.step)
    ends = [None if end is None else shapes.resolve(size_of(end)) for end in (part.start, part.stop)]
    if shapes.has_hint(size) or not shapes.known(">=", step - 1) or not shapes.known(">=", size):
        return None
    from_start = [end is None or shapes.known(">=", end) for end in ends]
    if None in from_start or depends_on_counter(shapes, size, step, *(end for end in ends if end is not None)):
        return None
    if all(
        end is None or shapes.known(">=", size - (end if low else -end))
        for end, low in zip(ends, from_start, strict=True)
    ):
        return None
    first, last = (end if end is None or low else end + size for end, low in zip(ends, from_start, strict=True))
    start = ZERO if first is None else positive(rec, first, size) if not from_start[0] else first
    if last is None or shapes.known(">=", size - last):
        span = positive(rec, (size if last is None else last) - start, size)
    else:
        span = positive(rec, positive(rec, size - start, size) - positive(rec, size - last, size), size)
    count = (span - 1) // step + 1
    return (
        (start, step, count, slice(start, start + span, step)) if count is not ZERO else (ZERO, ONE, ZERO, slice(0, 0))
    )


def _basic(rec: Recorder, x: TracedArray, items: Sequence[_Item]) -> TracedArray:
    """The view that integers, slices and new axes make; array items keep their axis whole."""
    shapes = rec.shapes
    starts: list[Index] = []
    steps: list[Index] = []
    sizes: list[Index] = []
    shape: list[Index] = []
    keep: list[int | None] = []
    slices: list[slice] = []
    for item in items:
        if item.kind == "new":
            shape.append(ONE)
            keep.append(None)
            continue
        for _ in range(item.axes):
            axis = len(starts)
            size = x.sizes[axis]
            if item.kind == "int":
                start, step, size = _wrap(shapes, size_of(item.value), axis, size), ONE, ONE
                part = slice(start, start + 1, ONE)
            else:
                given = item.value if item.kind == "slice" else slice(None)
                start, step, size, part = _open_range(rec, given, size) or _range(shapes, given, size)
                shape.append(size)
                keep.append(axis)
            starts.append(start)
            steps.append(step)
            sizes.append(size)
            slices.append(part)
    region = (tuple(starts), tuple(steps), tuple(sizes))
    view = x.derive(SliceView(region, tuple(slices)))
    if keep == list(range(len(sizes))):
        return view
    base = view.strides_in_elements
    strides = None if base is None else tuple(ZERO if a is None else base[a] for a in keep)
    return view.derive(ReshapeView(tuple(shape), strides))


# --- arrays -------------------------------------------------------------------------------------------


@record
class _Places:
    """Elements of `base` at integer arrays of shape `common` along `axes`.  `order` : where NumPy puts the axes of a
    gather's result, in `shape`.  `view` : the view they are, when all positions are integers and not arrays."""

    base: TracedArray
    indices: tuple[Node, ...]
    axes: tuple[int, ...]
    order: tuple[int, ...]
    shape: Shape
    view: PickView | None

    def put(self, rec: Recorder, value: Node, op: str = "set") -> None:
        """`value` has the shape and dtype of the elements."""
        back = tuple(int(k) for k in np.argsort(self.order))
        value = rec.nodes.transpose(value, back)
        self.base.store(rec.nodes.scatter(self.base.node, value, self.indices, self.axes, op))


def _places(rec: Recorder, x: TracedArray, items: Sequence[_Item]) -> _Places:
    """The elements at array items, and at integer items beside them."""
    axes = tuple(k for k, i in enumerate(items) if i.kind in ("array", "int"))
    base = _basic(rec, x, [_Item("slice", slice(None)) if i.kind == "int" else i for i in items])
    given = [rec.lift(items[k].value) for k in axes]
    common = rec.shapes.broadcast(*(i.sizes for i in given))
    for index, axis in zip(given, axes, strict=True):
        known = rec.known(index.node)
        if known is not None and known.size and rec.shapes.has_hint(base.sizes[axis]):
            for k in (int(known.min()), int(known.max())):
                _wrap(rec.shapes, as_index(k), axis, base.sizes[axis])
    indices = tuple(rec.nodes.broadcast(rec.nodes.cast(i.node, dtypes.INT64), common) for i in given)
    rest = [n for k, n in enumerate(base.sizes) if k not in axes]
    lead, front = len(common), axes[0]
    order = tuple(range(lead + len(rest)))
    if axes == tuple(range(front, front + len(axes))):
        order = (*range(lead, lead + front), *range(lead), *range(lead + front, lead + len(rest)))
    made = (*common, *rest)
    view = PickView(axes, indices) if all(i.is_scalar for i in given) else None
    return _Places(base, indices, axes, order, tuple(made[k] for k in order), view)


def _gather(rec: Recorder, x: TracedArray, items: Sequence[_Item]) -> TracedArray:
    places = _places(rec, x, items)
    if places.view and places.shape:
        return places.base.derive(places.view)
    node = rec.nodes.transpose(rec.nodes.gather(places.base.node, places.indices, places.axes), places.order)
    return rec.fresh(node, is_scalar=not node.shape)


def _select(rec: Recorder, x: TracedArray, items: Sequence[_Item], k: int) -> TracedArray | Selection:
    """The elements under the mask, which is item k; the others are slices and new axes."""
    mask: TracedArray = items[k].value
    _mask_fits(x, mask, sum(i.axes for i in items[:k]))
    base, given = rec.fresh(_basic(rec, x, items).node), rec.fresh(mask.node)
    if k == 0 and mask.ndim:
        return Selection(rec, base, given)
    return selected(rec, base, given, k)


def _nonzero(rec: Recorder, x: TracedArray, items: Sequence[_Item], k: int) -> list[_Item]:
    """Item k, an index array for each axis in place of a mask."""
    if items[k].kind != "mask":
        return [items[k]]
    _mask_fits(x, items[k].value, sum(i.axes for i in items[:k]))
    return [_Item("array", part) for part in rec.call(np.nonzero, (items[k].value,), {})]


def _mask_fits(x: TracedArray, mask: TracedArray, at: int) -> bool:
    """True; raises IndexError when the mask has other sizes than the axes from `at` on that it covers."""
    for k, (n, m) in enumerate(zip(x.sizes[at : at + mask.ndim], mask.sizes, strict=True)):
        if not x.recorder.shapes.unify(n, m):
            raise OutOfBoundsError(
                f"boolean index did not match indexed array along axis {at + k}; size of axis is {shown(n)} "
                f"but size of corresponding boolean axis is {shown(m)}",
                user_origin(),
            )
    return True


def _assign_mask(rec: Recorder, x: TracedArray, items: Sequence[_Item], value: Any) -> bool:
    """``x[mask] = value`` as a choice; False when the value has one entry for each True."""
    at = next(k for k, i in enumerate(items) if i.kind == "mask")
    if any(i.kind in ("array", "int", "new") or (i.kind == "mask" and k != at) for k, i in enumerate(items)):
        return False
    target = _basic(rec, x, items)
    mask: TracedArray = items[at].value
    _mask_fits(target, mask, at)
    rest = target.sizes[at + mask.ndim :]
    under = type(value) is Selection and not at and value.is_under(mask.node)
    if under and rec.shapes.unify_shapes(value.full.sizes, target.sizes):
        value = value.full
        rest = target.sizes
    node = stored(rec, value, x.dtype).node
    while len(node.shape) > len(rest) and node.shape[0] is ONE:
        node = rec.nodes.reshape(node, node.shape[1:])
    if len(node.shape) > len(rest):
        return False
    spread = rec.nodes.reshape(mask.node, mask.sizes + (ONE,) * (target.ndim - at - mask.ndim))
    choose = rec.nodes.broadcast(spread, target.sizes)
    chosen = rec.nodes.broadcast(node, rec.shapes.broadcast(node.shape, target.sizes))
    target.store(rec.nodes.elementwise("where", (choose, chosen, target.node), x.dtype))
    return True
