"""Two-dimensional convolution, as a product of matrices over windows that are views (paper, section 5.2; section 9.8).

Images and filters enter; what NumPy would give leaves.  It is written in NumPy and can be called outside of a trace.
Inside, nothing here is an operation of its own: a window of a padded image is an index into it, so the product's factor
is read where the kernel needs it, and what follows element by element is fused as after any product.  Taps and channels
are one axis of the product, so that few channels make no short sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from numstax.errors import ShapeError
from numstax.records import record
from numstax.trace.origin import user_origin

xp: Any = np
"""NumPy called on arrays that may be traced."""
Pair = int | Sequence[int]
LAYOUTS = ("NHWC", "NCHW")


@record
class Window:
    """Of one dimension: taps and how far they are apart, steps from one window to the next, zeros on both sides."""

    taps: int
    dilation: int
    stride: int
    before: int
    after: int

    @property
    def span(self) -> int:
        return (self.taps - 1) * self.dilation + 1


def conv2d(
    x: Any,
    w: Any,
    *,
    stride: Pair = 1,
    padding: Pair | str | Sequence[Sequence[int]] = 0,
    dilation: Pair = 1,
    groups: int = 1,
    layout: str = "NHWC",
) -> Any:
    """The cross-correlation of images with filters, as libraries for neural networks define convolution::

        out[n, i, j, f] = sum over u, v, c of x[n, i*stride + u*dilation - padding, j*.. + v*.. - .., c] * w[u, v, c, f]

    Parameters
    ----------
    x : images, (N, H, W, C); with layout "NCHW" (N, C, H, W).
    w : filters, (KH, KW, C / groups, F); with layout "NCHW" (F, C / groups, KH, KW).
    stride, dilation : positive integers, one for both dimensions or one for each.
    padding : zeros on every side: an integer, one for each dimension, or a pair (before, after) for each; "valid":
        none; "same": as many as give ceil(size / stride) windows, the odd one behind.
    groups : channels and filters are divided into so many groups, and the filters of one see the channels of one.
    layout : "NHWC" or "NCHW", of images and result.

    Returns
    -------
    (N, OH, OW, F), or (N, F, OH, OW), of the common dtype of `x` and `w`, with OH = (H + before + after - (KH - 1) *
    dilation - 1) // stride + 1.  Sums are those of a product of matrices.

    Raises
    ------
    ShapeError : ranks, channels or groups do not fit, or a window is larger than the padded image.
    ValueError : an unknown layout or padding, a stride or dilation below 1, padding below 0.

    Examples
    --------
    >>> numstax.conv2d(np.ones((1, 3, 3, 1)), np.ones((2, 2, 1, 1)))[0, :, :, 0]
    array([[4., 4.],
           [4., 4.]])
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}")
    last = layout == "NHWC"
    _check(x, w, groups, last)
    sides = (1, 2) if last else (2, 3)
    taps = w.shape[:2] if last else w.shape[2:]
    windows = _windows([x.shape[k] for k in sides], taps, stride, padding, dilation)
    patches = _patches(x, windows, sides)
    return _channels_last(patches, w, groups) if last else _channels_first(patches, w, groups)


def _channels_last(patches: Any, w: Any, groups: int) -> Any:
    """(N, OH, OW, C, KH, KW) with (KH, KW, C / groups, F)."""
    n, oh, ow, channels, kh, kw = patches.shape
    filters = w.shape[3]
    each, k = filters // groups, kh * kw * (channels // groups)
    if groups == 1:
        rows = patches.transpose(0, 1, 2, 4, 5, 3).reshape(n * oh * ow, k)
        return xp.matmul(rows, w.reshape(k, filters)).reshape(n, oh, ow, filters)
    split = patches.reshape(n, oh, ow, groups, channels // groups, kh, kw)
    rows = split.transpose(3, 0, 1, 2, 5, 6, 4).reshape(groups, n * oh * ow, k)
    columns = w.reshape(k, groups, each).transpose(1, 0, 2)
    return xp.matmul(rows, columns).transpose(1, 0, 2).reshape(n, oh, ow, filters)


def _channels_first(patches: Any, w: Any, groups: int) -> Any:
    """(N, C, OH, OW, KH, KW) with (F, C / groups, KH, KW)."""
    n, channels, oh, ow, kh, kw = patches.shape
    filters = w.shape[0]
    k = channels // groups * kh * kw
    rows = patches.transpose(0, 1, 4, 5, 2, 3).reshape(n, groups, k, oh * ow)
    made = xp.matmul(w.reshape(groups, filters // groups, k), rows)
    return made.reshape(n, filters, oh, ow)


def _patches(x: Any, windows: Sequence[Window], sides: tuple[int, int]) -> Any:
    """A view of the padded images with the taps of each window as two further axes."""
    if any(window.before or window.after for window in windows):
        widths = [(0, 0)] * 4
        for axis, window in zip(sides, windows, strict=True):
            widths[axis] = (window.before, window.after)
        x = xp.pad(x, widths)
    view = sliding_window_view(x, tuple(window.span for window in windows), sides)
    steps = [slice(None)] * 6
    for k, (axis, window) in enumerate(zip(sides, windows, strict=True)):
        steps[axis], steps[4 + k] = slice(None, None, window.stride), slice(None, None, window.dilation)
    return view[tuple(steps)]


def _check(x: Any, w: Any, groups: int, last: bool) -> None:
    """Raises ShapeError where channels do not chain."""
    if x.ndim != 4 or w.ndim != 4:
        raise ShapeError(f"conv2d takes images and filters of rank 4, got {x.ndim} and {w.ndim}", user_origin())
    channels, (inside, filters) = (x.shape[3], w.shape[2:]) if last else (x.shape[1], (w.shape[1], w.shape[0]))
    if groups < 1 or channels % groups or filters % groups:
        raise ShapeError(
            f"conv2d cannot divide {channels} channels and {filters} filters into {groups} groups", user_origin()
        )
    if inside != channels // groups:
        raise ShapeError(
            f"conv2d: the images have {channels} channels in {groups} groups, the filters take {inside} of a group",
            user_origin(),
            f"w is ({'KH, KW, C / groups, F' if last else 'F, C / groups, KH, KW'}) for this layout",
        )


def _windows(sizes: Sequence[Any], taps: Sequence[int], stride: Pair, padding: Any, dilation: Pair) -> list[Window]:
    """The window of each dimension."""
    strides, dilations = _pair(stride, "stride", 1), _pair(dilation, "dilation", 1)
    made = []
    for axis, (size, count) in enumerate(zip(sizes, taps, strict=True)):
        bare = Window(count, dilations[axis], strides[axis], 0, 0)
        before, after = _padding(padding, axis, size, bare)
        made.append(Window(count, bare.dilation, bare.stride, before, after))
        if size + before + after < bare.span:
            raise ShapeError(
                f"conv2d: a window of {bare.span} does not fit the images' {size} + {before + after} of padding",
                user_origin(),
            )
    return made


def _padding(padding: Any, axis: int, size: Any, window: Window) -> tuple[Any, Any]:
    if padding == "same":
        total = max((-(-size // window.stride) - 1) * window.stride + window.span - size, 0)
        return total // 2, total - total // 2
    if isinstance(padding, str):
        if padding == "valid":
            return 0, 0
        raise ValueError(f"padding must be 'same', 'valid' or numbers, got {padding!r}")
    if isinstance(padding, int):
        return _pair(padding, "padding", 0)
    one = padding[axis] if len(padding) == 2 else padding
    return _pair(one, "padding", 0)


def _pair(value: Pair, what: str, least: int) -> tuple[int, int]:
    first, second = (value, value) if isinstance(value, int) else tuple(value)
    if min(first, second) < least:
        raise ValueError(f"{what} must be at least {least}, got {value}")
    return first, second
