"""A plan whose calls launch the same programs every time, as a list of launches (section 9.9).

A Plan enters; a `Recording` leaves, or CannotReplayError says which of the conditions does not hold:

  1. Launches, grids and shapes are the same in every call: sizes are numbers, and nothing depends on values.
  2. What a launch is given is the same but for addresses and scalars that come from outside.
  3. All work is on one GPU: no library call, and no value is read by the host on the way.

The wrapper of the plan is run once, with addresses that stand for memory and launches that are noted instead of made.
Counted loops are run through: every iteration leaves its launches.  A loop that goes on as long as the GPU finds
something leaves those of one iteration, which the GPU repeats.  There arrays do not change places, but what is new is
copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.program import Allocate, Argument, Call, ControlStep, ExternCall, Param, Plan, Program, Result, all_steps
from numstax.records import record
from numstax.runtime.device import AnyDevice, Loaded
from numstax.runtime.exchange import Exchange
from numstax.runtime.interop import Family
from numstax.runtime.launch import launcher
from numstax.runtime.memory import Pool, address_of, memory_at
from numstax.runtime.wrapper import Style, Writer
from numstax.runtime.wrapper_device import DeviceStyle

LONGEST = 4096
"""Launches in a graph; longer plans run as they are."""
HEAVY = 64 << 20
"""Bytes of temporaries that a graph may keep between calls."""
OFTEN = 8
"""Launches that may use a result: with more, it is copied to its place at the end, so that few launches change when the
place does."""


Load = Callable[[Sequence[Program]], Mapping[str, Loaded]]


class CannotReplayError(Exception):
    """Why the plan is not recorded."""


@record
class Outside:
    """A word that every call gives anew: the k-th, and an offset from it in bytes (0 for scalars)."""

    k: int
    offset: int = 0


@record
class Inside:
    """An address in memory of the graph's own: the k-th block, or the counters (-1)."""

    k: int
    offset: int = 0


Word = int | Outside | Inside


@record
class Launched:
    loaded: Loaded
    grid: tuple[int, int, int]
    shared: int
    words: tuple[Word, ...]


@record
class Copied:
    target: Word
    source: Word
    nbytes: int


@record
class Repeated:
    """`steps`, as long as the bool at `test` holds: before the first time, and after each."""

    test: Word
    steps: tuple[Step, ...]


Step = Launched | Copied | Repeated


def every(steps: Iterable[Step]) -> Iterator[Step]:
    """The steps, and those that are repeated."""
    for step in steps:
        yield step
        if isinstance(step, Repeated):
            yield from every(step.steps)


@record
class Recording:
    """outside : the words that each call gives, spelled as in its wrapper; floats : which of them are floats.
    made : the arrays among them that a call allocates for its results.  blocks : bytes of each block of the graph's own
    memory; counters : how many it needs."""

    steps: tuple[Step, ...]
    outside: tuple[str, ...]
    floats: tuple[int, ...]
    made: tuple[str, ...]
    blocks: tuple[int, ...]
    counters: int

    @property
    def repeats(self) -> bool:
        return any(isinstance(step, Repeated) for step in self.steps)

    def __str__(self) -> str:
        launches = sum(isinstance(step, Launched) for step in every(self.steps))
        return f"one CUDA graph of {launches} launches" + (", with loops that the GPU repeats" if self.repeats else "")


def recorded(plan: Plan, load: Load, device: AnyDevice) -> Recording:
    """Raises CannotReplayError, and CompileError."""
    reason = _refusal(plan)
    if reason:
        raise CannotReplayError(reason)
    tape = _Tape(plan, load(plan.programs))
    returned = launcher(plan, tape).call(*tape.arguments())
    if tape.count < 2:
        raise CannotReplayError("it launches one program")
    return tape.recording([address_of(a) for a in returned])  # type: ignore[arg-type]


def _refusal(plan: Plan) -> str:
    steps = list(all_steps(plan.steps))
    if plan.sizes or any(a.kind == "size" for a in plan.arguments):
        return "sizes are symbols, and a graph is for one shape"
    for step in steps:
        if isinstance(step, ExternCall):
            return f"{step.function} is a library call"
        if isinstance(step, ControlStep) and step.kind == "cond":
            return "a branch depends on a value that the GPU computes"
        if isinstance(step, ControlStep) and step.kind == "while":
            if any(a not in step.spare and b not in step.spare for a, b in step.rotate):
                return "states of a loop that depends on a value of the GPU change places"
            if not step.head.isidentifier() or any(a.name == step.head for a in plan.arguments):
                return "a loop depends on a value of the host"
    if any(p.kind == "status" for program in plan.programs for p in program.params):
        return "the host reads whether an index was out of bounds"
    return ""


_SHIFT = 44
"""Blocks of memory are so many bits apart, so that an address tells its block."""


@dataclass
class _Tape:
    """A machine that notes what it is told to run.  `places` : what the blocks stand for, by number: an outside word,
    or bytes of memory of the graph's own."""

    plan: Plan
    loaded: Mapping[str, Loaded]
    steps: list[Step] = field(default_factory=list)
    places: list[str | int] = field(default_factory=list)
    counters: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        self.pool = Pool(1 << 62, self._root, 0, True)
        arrays = [(a.name, _NOTED) for a in self.plan.arguments if a.kind == "array"]
        self.style: Style = _TapeStyle(self.plan, Exchange(tuple(arrays), _NOTED), _no_library)

    def _place(self, what: str | int) -> int:
        self.places.append(what)
        return len(self.places) << _SHIFT

    def _root(self, nbytes: int) -> np.ndarray:
        return memory_at(self._place(nbytes), (nbytes,), dtypes.UINT8)

    def arguments(self) -> Iterator[Any]:
        for a in self.plan.arguments:
            if a.kind == "scalar":
                yield a.dtype.type(0)
            else:
                strides = tuple(a.dtype.itemsize * int(s) for s in a.strides)
                yield memory_at(self._place(f"{a.name}_at"), tuple(map(int, a.shape)), a.dtype, strides)

    def namespace(self, plan: Plan) -> dict[str, object]:
        return {
            "pooled": self.pool.empty,
            "kept": self._kept,
            "seen": lambda array: array,
            "copyto": self._copy,
            "counting": self._counting,
            "repeated": self._repeated,
            "aligned": None,  # these addresses are
            **{name: self._launch(loaded) for name, loaded in self.loaded.items()},
        }

    def _kept(self, name: str, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        return memory_at(self._place(f"{name}_at"), shape, dtype)

    def _copy(self, target: np.ndarray, source: np.ndarray, stream: int) -> None:
        self._note(Copied(address_of(target), address_of(source), source.nbytes))

    def _counting(self, stream: int, count: int) -> int:
        self.counters = max(self.counters, count)
        return 0

    def _launch(self, loaded: Loaded) -> Callable[..., None]:
        def note(stream: int, x: int, y: int, z: int, shared: int, *words: Any) -> None:
            self._note(Launched(loaded, (x, y, z), shared, words))

        return note

    def _note(self, step: Launched | Copied) -> None:
        if self.count == LONGEST:
            raise CannotReplayError(f"it launches more than {LONGEST} programs")
        self.count += 1
        self.steps.append(step)

    @contextmanager
    def _repeated(self, test: np.ndarray) -> Iterator[None]:
        """What is noted inside is repeated as long as `test` holds."""
        before, self.steps = self.steps, []
        yield
        before.append(Repeated(address_of(test), tuple(self.steps)))
        self.steps = before

    # --- what the notes mean --------------------------------------------------------------------------

    def recording(self, results: list[int]) -> Recording:
        """`results` : the addresses of the arrays that results are made of."""
        sources = [r.source for r in self.plan.results]
        final = {(address >> _SHIFT) - 1: f"{s}_at" for address, s in zip(results, sources, strict=True)}
        uses: dict[int, int] = {}
        for step in every(self.steps):
            for block in {b for b in map(self._block, _pointers(step)) if b is not None}:
                uses[block] = uses.get(block, 0) + 1
        given = [p for p in self.places if isinstance(p, str) and p[:-3] in {a.name for a in self.plan.arguments}]
        passed = Writer(self.plan, self.style, False).passed
        numbers = [a for a in self.plan.arguments if a.kind == "scalar" and a.name in passed]
        scalars = [word for a in numbers for word in _scalar_words(a)]
        made = [name for name in dict.fromkeys(final.values()) if name not in given]
        outside = [*(name for name in given if name[:-3] in passed), *made, *scalars]
        blocks: list[int] = []
        meaning: dict[int, Word] = {}
        copies: list[Copied] = []
        for block, place in enumerate(self.places):
            name = final.get(block, place)
            is_argument = place in given
            if is_argument and name != place:
                raise CannotReplayError("a result changes places with an argument")
            if is_argument and place not in outside:
                continue  # no program takes it
            often = block in final and not is_argument and uses.get(block, 0) > OFTEN
            if isinstance(name, str) and name in outside and not often:
                meaning[block] = Outside(outside.index(place if is_argument else name))  # type: ignore[arg-type]
            else:
                meaning[block] = Inside(len(blocks))
                blocks.append(place if isinstance(place, int) else self._nbytes(place))
                if often:
                    copies.append(Copied(Outside(outside.index(final[block])), meaning[block], blocks[-1]))
        if sum(blocks) > HEAVY:
            raise CannotReplayError(f"its temporaries take {sum(blocks) / 1e6:.0f} MB, which a graph would keep")
        steps = [self._resolved(step, meaning, outside) for step in self.steps]
        real = {word for a in numbers if a.dtype.kind in "fc" for word in _scalar_words(a)}
        floats = tuple(k for k, word in enumerate(outside) if word in real)
        made_arrays = tuple(name[:-3] for name in made)
        return Recording((*steps, *copies), tuple(outside), floats, made_arrays, tuple(blocks), self.counters)

    def _nbytes(self, place: str) -> int:
        step = next(s for s in all_steps(self.plan.steps) if isinstance(s, Allocate) and f"{s.name}_at" == place)
        return step.dtype.itemsize * int(np.prod([int(eval(n)) for n in step.shape], dtype=np.int64))

    def _block(self, word: Any) -> int | None:
        return (word >> _SHIFT) - 1 if isinstance(word, int) and word >> _SHIFT else None

    def _resolved(self, step: Step, meaning: Mapping[int, Word], outside: list[str]) -> Step:
        def address(word: Any) -> Word:
            block = self._block(word)
            assert block is not None
            place, offset = meaning[block], word - (block + 1 << _SHIFT)
            assert not isinstance(place, int)
            return type(place)(place.k, offset)

        if isinstance(step, Copied):
            return Copied(address(step.target), address(step.source), step.nbytes)
        if isinstance(step, Repeated):
            inside = tuple(self._resolved(inner, meaning, outside) for inner in step.steps)
            return Repeated(address(step.test), inside)
        words: list[Word] = []
        for param, word in zip(_per_word(step.loaded.program.params), step.words, strict=True):
            if param.kind == "counters":
                words.append(Inside(-1))
            elif isinstance(word, str):
                words.append(Outside(outside.index(word)))
            else:
                assert isinstance(word, int)
                words.append(address(word) if param.is_array else word)
        return Launched(step.loaded, step.grid, step.shared, tuple(words))


class _TapeStyle(DeviceStyle):
    """Every array is described; scalars are passed by name; memory of results is told from temporaries."""

    @property
    def natural(self) -> set[str]:
        return set()

    def begin(self, writer: Writer) -> Iterator[str]:
        yield "stream = 0"

    def memory(self, writer: Writer, arguments: Any) -> Iterator[str]:
        yield from (f"{a.name}_at = address({a.name})" for a in arguments)

    def allocate(self, writer: Writer, step: Allocate) -> str:
        sources = {r.source for r in self.plan.results}
        if step.name not in (sources | writer.turning if sources & writer.turning else sources):
            return super().allocate(writer, step)
        return super().allocate(writer, step).replace("pooled(", f"kept({step.name!r}, ", 1)

    def call(self, writer: Writer, step: Call, program: Program) -> Iterator[str]:
        return super().call(_Quoting(writer), step, program)  # type: ignore[arg-type]

    def repeat(self, writer: Writer, step: ControlStep, test: list[str], body: list[str]) -> Iterator[str]:
        yield from (line.removeprefix("    ") for line in test)
        yield f"with repeated({step.head}):"
        yield from body
        yield from (f"    copyto({a}, {b}, stream)" for a, b in step.rotate if a not in step.spare)
        yield from test

    def end(self, writer: Writer) -> Iterator[str]:
        return iter(())

    def result(self, writer: Writer, result: Result) -> str:
        return result.source


@record
class _Quoting:
    """A writer that spells scalars of the caller as text."""

    writer: Writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.writer, name)

    def word(self, param: Param, value: str) -> str:
        spelled = self.writer.word(param, value)
        if param.kind == "scalar" and value in self.writer.scalars:
            return ", ".join(map(repr, spelled.split(", ")))
        return spelled


def _scalar_words(argument: Argument) -> list[str]:
    name = argument.name
    return [f"{name}_re", f"{name}_im"] if argument.dtype.kind == "c" else [f"{name}_v"]


def _per_word(params: tuple[Param, ...]) -> Iterator[Param]:
    """The parameter of each word."""
    for param in params:
        yield param
        if param.kind == "scalar" and param.dtype is not None and param.dtype.kind == "c":
            yield param


def _pointers(step: Step) -> Iterator[Any]:
    if isinstance(step, Copied):
        yield from (step.target, step.source)
        return
    if isinstance(step, Repeated):
        yield step.test
        return
    for param, word in zip(_per_word(step.loaded.program.params), step.words, strict=True):
        if param.is_array:
            yield word


def _no_library(path: str) -> Callable[..., Any]:
    raise CannotReplayError(f"{path} is a library call")


_NOTED = Family(
    "noted",
    seen=lambda array: array,
    device=lambda _: 0,
    kind=lambda _: (),
    layout=lambda _: (),
    give=lambda layout, device, stream: layout,
    stream="0",
)
