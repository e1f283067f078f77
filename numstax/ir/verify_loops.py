"""Verification of Schedules: types, order of definitions, bounds, single writers, locals that stay local.

See `verify` for what enters and leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import numpy as np

from numstax import dtypes
from numstax.errors import Origin, VerifyError
from numstax.ir.index import (
    ONE,
    ZERO,
    Index,
    Ref,
    Var,
    atoms,
    bounds,
    contiguous_strides,
    less,
    stride_of,
)
from numstax.ir.loops import (
    CHECKS,
    Accumulate,
    Buffer,
    BufferView,
    Contract,
    Control,
    Effect,
    Extern,
    Instr,
    Kernel,
    Loop,
    Reduce,
    Scan,
    Schedule,
    Store,
    Unit,
    unit_name,
    views_in,
)
from numstax.ir.ops import ELEMENTWISE, REDUCTIONS, SCANS, resolve
from numstax.ir.overlap import apart
from numstax.ir.show import loop_lines
from numstax.precision import PRECISIONS
from numstax.requirements import REQUIREMENTS

Complaints = Iterator[str]
_PLACES = ("argmax", "argmin")


def verify_schedule(schedule: Schedule) -> None:
    """Raise VerifyError at the first thing that is provably inconsistent."""
    buffers = {b.name: b for b in schedule.buffers}
    if len(buffers) < len(schedule.buffers):
        raise VerifyError(f"two buffers have one name: {sorted(b.name for b in schedule.buffers)}")
    for buffer in schedule.buffers:
        _verify_buffer(buffer)
    # an empty buffer needs no writer
    defined = {b.name for b in schedule.buffers if b.kind in ("input", "scalar") or ZERO in b.shape}
    for unit in schedule.units:
        for name in sorted((unit.reads() | unit.writes()) - _locals(unit)):
            if name not in buffers or buffers[name].kind == "local":
                raise VerifyError(f"{unit_name(unit)} uses {name}, which is not a buffer of the schedule")
        if isinstance(unit, Kernel):
            _verify_kernel(unit, buffers, defined)
        elif isinstance(unit, Extern):
            _verify_extern(unit, buffers, defined)
        else:
            _verify_control(unit, buffers, defined)
        defined |= unit.writes() - _locals(unit)
    for name in (*(n for n in schedule.outputs if n is not None), *(n for _, n in schedule.writes)):
        if name not in defined:
            raise VerifyError(f"the result {name} is never written")


def _locals(unit: Unit) -> set[str]:
    return {b.name for b in unit.buffers if b.kind == "local"} if isinstance(unit, Kernel) else set()


def _verify_buffer(buffer: Buffer) -> None:
    if buffer.kind not in ("input", "scalar", "output", "temp", "local"):
        raise VerifyError(f"there is no kind of buffer {buffer.kind!r}: {buffer.name}")
    if len(buffer.strides) != len(buffer.shape) or (buffer.kind == "scalar" and buffer.shape):
        raise VerifyError(f"shape and strides of {buffer.name} do not fit: {buffer}")
    if buffer.kind != "input" and buffer.strides != contiguous_strides(buffer.shape):
        raise VerifyError(f"{buffer.name} must be C-contiguous, but has strides {buffer.strides}")


def _extremes(shape: Iterable[Index], strides: Iterable[Index]) -> tuple[Index, Index]:
    """The lowest and highest offset of an array; strides of unknown sign count as zero."""
    low = high = ZERO
    for n, s in zip(shape, strides, strict=True):
        span = (n - 1) * s
        lo, hi = bounds(s)
        if lo is not None and lo >= 0:
            high = high + span
        elif hi is not None and hi <= 0:
            low = low + span
    return low, high


def _is_empty(shape: Iterable[Index]) -> bool:
    """Is there provably no element?"""
    return any(less(ZERO, n) is False for n in shape)


def _outside(buffer: Buffer, offset: Index) -> bool:
    """Does an access provably leave the buffer?"""
    if any(bounds(s) == (None, None) for s in buffer.strides) or _is_empty(buffer.shape):
        return False
    low, high = _extremes(buffer.shape, buffer.strides)
    if less(offset, low) or less(high, offset):
        return True
    corners = _corners(offset)
    return corners is not None and any(less(c, low) or less(high, c) for c in corners)


def _corners(offset: Index) -> tuple[Index, Index] | None:
    """The smallest and largest value, where both are taken: sums of variables times numbers."""
    low = high = ZERO
    for mono, coef in offset.terms:
        if not mono:
            low, high = low + coef, high + coef
        elif len(mono) == 1 and isinstance(mono[0], Var):
            end = (mono[0].extent - 1) * coef
            if bounds(mono[0].extent)[0] in (None, 0):
                return None
            low, high = (low, high + end) if coef > 0 else (low + end, high)
        else:
            return None
    return low, high


def _verify_extern(unit: Extern, buffers: Mapping[str, Buffer], defined: set[str]) -> None:
    for name in sorted(unit.reads() - defined):
        raise VerifyError(f"{unit_name(unit)} reads {name}, which is not written before", unit.origin)
    out = (unit.out,) if unit.out else ()
    for view in (*views_in((unit.args, unit.kwargs)), *out):
        complaint = _view_complaint(view, buffers[view.buffer])
        if complaint:
            raise VerifyError(f"{unit_name(unit)}: {complaint}", unit.origin)
    if bool(unit.results) == bool(unit.out):
        raise VerifyError(f"{unit_name(unit)} must have either results or out", unit.origin)


def _view_complaint(view: BufferView, buffer: Buffer) -> str:
    if len(view.shape) != len(view.strides):
        return f"shape and strides of a view of {buffer.name} do not fit"
    low, high = _extremes(view.shape, view.strides)
    if not _is_empty(view.shape) and any(_outside(buffer, view.offset + end) for end in (low, high)):
        return f"a view of {buffer.name} leaves it"
    return ""


def _verify_control(unit: Control, buffers: Mapping[str, Buffer], defined: set[str]) -> None:
    def wrong(what: str) -> VerifyError:
        return VerifyError(f"{unit.kind}: {what}", unit.origin)

    # what a state holds before does not matter where a body writes it whole
    for name in sorted(unit.reads() - defined - set(unit.args[: unit.states])):
        raise wrong(f"reads {name}, which is not written before")
    if isinstance(unit.head, str) and buffers[unit.head].shape:
        raise wrong(f"{unit.head} is not 0-d")
    written = [unit.args[k] for k in {k for body in unit.bodies for k, _ in body.graph.writes}]
    if len(set(written)) < len(written) or any(unit.args.count(name) > 1 for name in written):
        raise wrong(f"a buffer that is written stands for two arguments: {unit.args}")
    layouts = [_layout(buffers[name]) for name in unit.args]
    targets, sources = {k for k, _ in unit.rotate}, {j for _, j in unit.rotate}
    if targets != sources or any(layouts[k] != layouts[j] for k, j in unit.rotate):
        raise wrong(f"the arguments {unit.rotate} cannot change their roles")
    for body in unit.bodies:
        given = [_layout(b) for b in body.schedule.buffers if b.kind == "input"]
        if given != layouts:
            raise wrong("the inputs of a body are not the arguments")
        if [(k, f"x{k}") for k, _ in body.graph.writes] != list(body.schedule.writes):
            raise wrong("a body must write its arguments in place")
        verify_schedule(body.schedule)


def _layout(buffer: Buffer) -> tuple[object, ...]:
    """Equal for buffers that hold the same array in the same places: the stride along an axis of one element is
    never used."""
    strides = tuple(ZERO if n is ONE else s for n, s in zip(buffer.shape, buffer.strides, strict=True))
    return buffer.dtype, buffer.shape, strides


def _verify_kernel(kernel: Kernel, shared: Mapping[str, Buffer], outside: set[str]) -> None:
    buffers = {b.name: b for b in kernel.buffers}
    if len(buffers) < len(kernel.buffers):
        raise VerifyError(f"kernel {kernel.name}: two buffers have one name")
    for buffer in kernel.buffers:
        _verify_buffer(buffer)
        if buffer.kind != "local" and shared.get(buffer.name) != buffer:
            raise VerifyError(f"kernel {kernel.name}: {buffer.name} differs from the buffer of the schedule")
    unused = buffers.keys() - kernel.reads() - kernel.writes()
    if unused:
        raise VerifyError(f"kernel {kernel.name}: buffers {sorted(unused)} are not used")
    defined = set(outside)
    for k, loop in enumerate(kernel.loops):
        variables = (*kernel.outer, *loop.inner)
        place = f"kernel {kernel.name}, loop {k}"
        if len({v.name for v in variables}) < len(variables):
            raise VerifyError(f"{place}: two variables have one name: {', '.join(v.name for v in variables)}")
        for v in variables:
            if any(isinstance(atom, Var | Ref) for atom in atoms(v.extent)):
                raise VerifyError(f"{place}: the extent of {v} depends on a variable: {v.extent}")
        # elements that only some positions are written to may have been undefined before
        placed = {e.buffer for e in loop.effects if isinstance(e, Accumulate) and e.op == "set"}
        for name in sorted(loop.reads() - defined - (placed & buffers.keys())):
            what = "is not written before" if name in buffers else "is not a buffer of the kernel"
            raise VerifyError(f"{place} reads {name}, which {what}")
        _LoopCheck(kernel, loop, buffers, place).run()
        defined |= loop.writes()
    for complaint in _races(kernel, buffers):
        raise VerifyError(f"kernel {kernel.name}: {complaint}")
    for case in kernel.cases:
        # over sizes of which more is known
        own = {b.name: b for b in case.kernel.buffers if b.kind != "local" and b.name in shared}
        _verify_kernel(case.kernel, {**shared, **own}, outside)


class _LoopCheck:
    """One loop; complaints are raised with the printed line they are about."""

    def __init__(self, kernel: Kernel, loop: Loop, buffers: Mapping[str, Buffer], place: str) -> None:
        self.kernel, self.loop, self.buffers, self.place = kernel, loop, buffers, place
        self.variables = {*kernel.outer, *loop.inner}

    def run(self) -> None:
        used: set[int] = set()
        for k, instr in enumerate(self.loop.body):
            self.report(self.instr(k, instr), k, instr.origin)
            used.update(instr.args, self.refs(instr.attr))
        for k, effect in enumerate(self.loop.effects):
            self.report(self.effect(effect), len(self.loop.body) + k, None)
            used.update(_operands(effect), *map(self.refs, _indices(effect)))
        for k, instr in enumerate(self.loop.body):
            # checks are made even where the element itself is not used
            if k not in used and instr.op not in CHECKS:
                self.report(iter(("the value is not used",)), k, instr.origin)

    def report(self, complaints: Complaints, line: int, origin: Origin | None) -> None:
        for complaint in complaints:
            raise VerifyError(f"{complaint}\n    {loop_lines(self.loop)[line][0]}\n  in {self.place}", origin)

    @staticmethod
    def refs(attr: object) -> list[int]:
        index = attr[1] if isinstance(attr, tuple) else attr
        return [atom.position for atom in atoms(index) if isinstance(atom, Ref)] if isinstance(index, Index) else []

    def instr(self, k: int, instr: Instr) -> Complaints:
        if not all(0 <= a < k for a in instr.args):
            yield "an operand is defined later"
            return
        given = tuple(self.loop.body[a].dtype for a in instr.args)
        rule = getattr(self, f"op_{instr.op}", None)
        if rule is not None:
            yield from rule(k, instr, given)
        elif instr.op in ELEMENTWISE:
            yield from _elementwise(instr, given)
        else:
            yield f"there is no instruction {instr.op!r}"

    def op_load(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        name, offset = cast(tuple[str, Index], instr.attr)
        if given not in ((), (dtypes.BOOL,)):
            yield "the mask of a load is one bool"
        yield from self.access(name, offset, instr.dtype, bool(given), k)

    def op_const(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if given or not isinstance(instr.attr, bool | int | float | complex | np.generic):
            yield "a const is a scalar without operands"

    def op_index(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if given or not isinstance(instr.attr, Index) or instr.dtype not in (dtypes.INT64, dtypes.INT32):
            yield "an index is an int64 or int32 without operands"
        else:
            yield from self.index(instr.attr, k)

    def op_cast(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if len(given) != 1:
            yield "a cast has one operand"

    def op_bitcast(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if len(given) != 1 or given[0].itemsize != instr.dtype.itemsize:
            yield "a bitcast has one operand of the same item size"

    def op_wrap(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if not given or dtypes.kind(given[0]) not in "iu" or given[1:] not in ((), (dtypes.BOOL,)):
            yield "wrap takes an integer and perhaps a bool"
        if instr.dtype != dtypes.INT64 or not isinstance(instr.attr, Index):
            yield "wrap gives an int64 below an Index"

    def op_require(self, k: int, instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
        if len(given) not in (2, 3) or set(given[1:]) != {dtypes.BOOL} or given[0] != instr.dtype:
            yield "require takes a value, a bool, and perhaps another bool"
        if instr.attr not in REQUIREMENTS:
            yield f"there is no requirement {instr.attr!r}"

    def index(self, index: Index, position: int) -> Complaints:
        """All its variables belong to the loop, its refs to entries before `position`."""
        for atom in atoms(index):
            if isinstance(atom, Var) and atom not in self.variables:
                yield f"{atom} (below {atom.extent}) is not a variable of this loop"
            elif isinstance(atom, Ref):
                if not 0 <= atom.position < position:
                    yield f"v{atom.position} is defined later"
                elif dtypes.kind(self.loop.body[atom.position].dtype) not in "iu":
                    yield f"v{atom.position} is not an integer"

    def access(self, name: str, offset: Index, dtype: np.dtype, masked: bool, position: int) -> Complaints:
        buffer = self.buffers.get(name)
        if buffer is None:
            yield f"{name} is not a buffer of the kernel"
            return
        if dtype != buffer.dtype:
            yield f"{name} holds {buffer.dtype}"
        yield from self.index(offset, position)
        if not masked and not _is_empty(v.extent for v in self.variables) and _outside(buffer, offset):
            yield f"the offset leaves {name}, which is {[str(n) for n in buffer.shape]}"

    def effect(self, effect: Effect) -> Complaints:
        body, end = self.loop.body, len(self.loop.body)
        if not all(0 <= k < end for k in _operands(effect)):
            yield "an operand is not in the body"
            return
        masked = isinstance(effect, Store) and effect.mask is not None
        if isinstance(effect, Store):
            dtype = body[effect.value].dtype
            if effect.mask is not None and body[effect.mask].dtype != dtypes.BOOL:
                yield "the mask of a store is a bool"
            yield from self.single_writer(effect.buffer, effect.offset, masked, self.loop.inner)
        elif isinstance(effect, Accumulate):
            dtype = effect.dtype
            if effect.op != "set" and (effect.op not in ELEMENTWISE or ELEMENTWISE[effect.op].arity != 2):
                yield f"there is no operation of two operands {effect.op!r}"
            yield from self.single_writer(effect.buffer, effect.offset, False, ())
        elif isinstance(effect, Scan):
            dtype = effect.dtype
            if not self.loop.inner or effect.op not in SCANS:
                yield "a scan needs an inner variable and an operation of ops.SCANS"
            yield from self.single_writer(effect.buffer, effect.offset, False, self.loop.inner)
        elif isinstance(effect, Contract):
            dtype = effect.dtype
            yield from self.contract(effect)
        else:
            dtype = dtypes.INT64 if effect.op in _PLACES else effect.dtype
            yield from self.reduce(effect)
        yield from self.access(effect.buffer, effect.offset, dtype, masked, end)

    def reduce(self, effect: Reduce) -> Complaints:
        if effect.op not in (*REDUCTIONS, *_PLACES, "online_softmax"):
            yield f"there is no reduction {effect.op!r}"
        if effect.op in _PLACES and (effect.position is None) == (effect.position_in is None):
            yield "argmax and argmin need either a position or partial positions"
        if effect.op == "online_softmax" and effect.value_buffer is None:
            yield "online_softmax needs a second buffer"
        if effect.position is not None:
            yield from self.index(effect.position, len(self.loop.body))
        for name, offset in _targets(effect)[1:]:
            yield from self.access(name, offset, effect.dtype, False, len(self.loop.body))
        yield from self.results(effect)

    def contract(self, effect: Contract) -> Complaints:
        if effect.precision not in PRECISIONS:
            yield f"there is no precision {effect.precision!r}"
        if self.loop.body[effect.value].dtype != self.loop.body[effect.other].dtype:
            yield "the factors of a product have one dtype"
        yield from self.results(effect)

    def results(self, effect: Effect) -> Complaints:
        for name, offset in _targets(effect):
            if any(atom in self.loop.inner for atom in atoms(offset)):
                yield "the offset of a reduction depends on an inner variable"
            yield from self.single_writer(name, offset, False, ())

    def single_writer(self, name: str, offset: Index, masked: bool, inner: tuple[Var, ...]) -> Complaints:
        """Every variable that the write is repeated over must tell its elements apart."""
        tiling = self.kernel.tiling
        atomic = tiling is not None and tiling.form == "scatter"
        if masked or atomic or name not in self.buffers:
            return
        mentioned = set(atoms(offset))
        repeated = inner if self.buffers[name].kind == "local" else (*self.kernel.outer, *inner)
        for v in repeated:
            if v not in mentioned and less(ONE, v.extent):
                yield f"each value of {v} writes the same element"


def _operands(effect: Effect) -> list[int]:
    if isinstance(effect, Contract):
        return [effect.value, effect.other]
    extra = effect.mask if isinstance(effect, Store) else effect.position_in if isinstance(effect, Reduce) else None
    return [effect.value] if extra is None else [effect.value, extra]


def _targets(effect: Effect) -> list[tuple[str, Index]]:
    first = (effect.buffer, effect.offset)
    if isinstance(effect, Reduce) and effect.value_buffer is not None and effect.value_offset is not None:
        return [first, (effect.value_buffer, effect.value_offset)]
    return [first]


def _indices(effect: Effect) -> tuple[Index | None, ...]:
    more = (effect.position, effect.value_offset) if isinstance(effect, Reduce) else ()
    return (effect.offset, *more)


def _elementwise(instr: Instr, given: tuple[np.dtype, ...]) -> Complaints:
    if len(given) != ELEMENTWISE[instr.op].arity:
        yield f"{instr.op} takes {ELEMENTWISE[instr.op].arity} operands"
        return
    try:
        wanted, result = resolve(instr.op, given)
    except TypeError as error:
        yield str(error)
        return
    if (wanted, result) != (given, instr.dtype):
        names = [d.name for d in (*given, *wanted, result)]
        n = len(given)
        yield f"dtypes are {', '.join(names[:n])}, but must be {', '.join(names[n:-1])} -> {names[-1]}"


def _races(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Complaints:
    """Elements of shared memory that one outer point writes and another one reads."""
    stores: dict[str, list[Index]] = {}
    for loop in kernel.loops:
        for effect in loop.effects:
            for name, offset in _targets(effect):
                if buffers[name].kind != "local":
                    stores.setdefault(name, []).append(offset)
    for loop in kernel.loops:
        for name, offset in loop.loads():
            for written in stores.get(name, ()):
                for v in kernel.outer:
                    read_step, write_step = stride_of(offset, v), stride_of(written, v)
                    if (
                        less(ONE, v.extent)
                        and read_step is not None
                        and write_step is not None
                        and read_step is not write_step
                        and not apart(offset, written, buffers[name])
                    ):
                        yield f"{name}[{offset}] is read and {name}[{written}] written by different values of {v}"
