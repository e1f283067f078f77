"""Plan -> one Python function that runs it.

Enters: a Plan and the machine to run it on.  Leaves: a `Launcher`, whose `call` takes the plan's arguments in order
(arrays in the layout the plan was made for, scalars) and returns the results as a tuple, and whose `source` is what
`call` was compiled from (`wrapper` writes it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from numstax.errors import Origin, OutOfBoundsError, SizeError
from numstax.program import Checked, Plan
from numstax.records import record
from numstax.requirements import CannotRunError
from numstax.runtime.memory import address_of
from numstax.runtime.wrapper import Style, write


@record
class Launcher:
    """call : the wrapper; source : its text; note : what else is to be said about how it runs."""

    call: Callable[..., tuple[object, ...]]
    source: str
    note: str = ""


class Machine(Protocol):
    """What runs programs: a `Host`, or a GPU as the arrays of a call see it (`device_host.Serving`)."""

    @property
    def style(self) -> Style: ...

    def namespace(self, plan: Plan) -> dict[str, object]:
        """The programs of the plan by name, and what else the style spells.  Raises CompileError."""
        ...


def launcher(plan: Plan, machine: Machine, observe: Callable[[str], None] | None = None) -> Launcher:
    """Load every program of the plan and write the wrapper.  Raises CompileError.

    With `observe`, the wrapper calls it with the name of each kernel and extern function after it has run.
    """
    source, constants = write(plan, machine.style, observe is not None)
    namespace: dict[str, object] = {
        "address": address_of,
        "empty": np.empty,
        "copyto": np.copyto,
        "strided": strided,
        "check_status": check_status,
        "results_of": results_of,
        "check_shape": check_shape,
        "ndarray": np.ndarray,
        "SizeError": SizeError,
        "CannotRunError": CannotRunError,
        "observe": observe,
        **constants,
        **machine.namespace(plan),
    }
    exec(compile(source, f"<numstax {plan.name}>", "exec"), namespace)
    return Launcher(namespace["call"], source)  # type: ignore[arg-type]


# --- what the wrapper calls -------------------------------------------------------------------------


def strided(
    array: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> np.ndarray:
    """A view: strides and offset in elements of `dtype`, from the first element of `array`."""
    if array.dtype == dtype and array.shape == shape and offset == 0:
        size = array.itemsize
        if all(have == want * size for have, want, n in zip(array.strides, strides, shape, strict=True) if n > 1):
            return array
    return np.lib.stride_tricks.as_strided(
        _shifted(array, dtype, offset),
        shape,
        tuple(s * dtype.itemsize for s in strides),
        writeable=array.flags.writeable,
    )


def _shifted(array: np.ndarray, dtype: np.dtype, offset: int) -> np.ndarray:
    """One element of `dtype`, `offset` elements from the first of `array`, keeping `array` alive."""
    interface = {
        "data": (address_of(array) + offset * dtype.itemsize, not array.flags.writeable),
        "shape": (1,),
        "typestr": f"|V{dtype.itemsize}",
        "version": 3,
    }
    holder = _Holder(interface, array)
    return np.asarray(holder).view(dtype)


@record
class _Holder:
    __array_interface__: dict[str, object]
    owner: np.ndarray


def check_status(status: np.ndarray, checks: Sequence[Checked]) -> None:
    """Raise what a program reported in its status word (see `program.Param`)."""
    if status[0]:
        index, number, size = status[1:4].tolist()
        what, line = checks[number]
        if what != "index":
            raise CannotRunError.unmet(what, line)
        raise OutOfBoundsError(f"index {index} is out of bounds for axis with size {size}", Origin.parse(line))


def results_of(returned: object) -> Sequence[object]:
    """What a library function returned, one or several."""
    return returned if isinstance(returned, tuple | list) else (returned,)


def check_shape(array: object, dtype: np.dtype, shape: tuple[int, ...], others: tuple | None = None) -> np.ndarray:
    """An extern's result as a C-contiguous array; CannotRunError when it is not what was traced.  With `others`, the
    arrays that the function was given, it is memory that nobody else has."""
    result = np.asarray(array)
    if result.shape != shape or result.dtype != dtype:
        raise CannotRunError(f"an extern call gave {result.dtype}{result.shape}, expected {dtype}{shape}")
    if others is not None and (not result.flags.owndata or any(result is other for other in others)):
        return result.copy(order="C")
    return np.ascontiguousarray(result) if result.ndim else result
