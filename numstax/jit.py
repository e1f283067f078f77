"""`jit`: the decorator.  Specialisations of a function, chosen by guards, with plain NumPy as the way out.

A call enters; its result leaves, computed by an `Artifact` made for arguments like these.  Artifacts hang under a
key (dtypes, shapes, strides, static values); each has a guard, and the last one used is tried first.  Whatever
goes wrong inside numstax never changes an answer: such a call runs as plain NumPy with one warning, or raises
under ``strict=True``.  Mistakes of the user always raise.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, overload

from numstax import backends, floating_errors, pipeline, places
from numstax.errors import (
    MISTAKES,
    REFUSALS,
    ArgumentCountError,
    DeviceError,
    NumstaxError,
    NumstaxWarning,
    PythonNumberError,
    SpecialisationLimitError,
    TraceError,
    UnsupportedOperationError,
    VerifyError,
)
from numstax.guards import MISS, Guard, device_arrays, key_of, searcher
from numstax.ir.graph import can_fail
from numstax.knobs import TUNING, Knobs, from_environ
from numstax.requirements import REQUIREMENTS, CannotRunError
from numstax.runtime import host as hosts
from numstax.runtime.arrays import to_device
from numstax.runtime.interop import OWN
from numstax.specialisation import Artifact, describe, undoing
from numstax.trace import elements, tracer
from numstax.trace.environment import ShapeEnvironment

if TYPE_CHECKING:
    from numstax.ir.graph import Graph

SPECIALISATIONS = 256
"""Artifacts kept for one function.  Further ones are compiled for their call and dropped, until
`COMPILATIONS`; after that such calls run as plain NumPy (under strict: SpecialisationLimitError)."""
COMPILATIONS = 1024
MANY = 64
"""Compilations of one function after which a warning says what to do about it."""


class Jitted:
    """A compiled function; called like the function it wraps (`__wrapped__`)."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        strict: bool | None = None,
        static_argnames: Iterable[str] = (),
        backend: str | None = None,
        device: str | None = None,
        dynamic: bool | str = False,
        fullgraph: bool = False,
        tune: str | None = None,
    ) -> None:
        self._options = {
            "strict": strict, "static_argnames": static_argnames, "backend": backend, "device": device,
            "dynamic": dynamic, "fullgraph": fullgraph, "tune": tune,
        }  # fmt: skip
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        functools.update_wrapper(self, function)
        self.__wrapped__ = function
        self.compile_count = 0
        """Specialisations traced and compiled so far."""
        self._strict, self._backend, self._device, self._fullgraph = strict, backend, device, fullgraph
        self._tune = tune
        self._mode = "symbolic" if dynamic is True else dynamic or ""
        self._signature = inspect.signature(function)
        self._static_names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        self._static = self._static_places()
        self._table: dict[object, tuple[Artifact, ...]] = {}
        self._search: dict[object, Callable[[tuple, dict], Any]] = {}
        self._last: Callable[[tuple, dict], Any] = lambda args, kwargs: MISS
        self._warned: set[str] = set()
        self._own = {*vars(self), "_own"} - {*getattr(function, "__dict__", ())}

    def attributes(self) -> list[str]:
        """The names that the user has set on it, or on the function before."""
        return [name for name in vars(self) if name not in self._own]

    def _static_places(self) -> frozenset[int | str]:
        """Names and positions of the static parameters."""
        parameters = list(self._signature.parameters)
        for name in self._static_names:
            if name not in parameters:
                raise ArgumentCountError(f"{self.__name__}() has no parameter {name!r} to be static")
        return frozenset((*self._static_names, *map(parameters.index, self._static_names)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if floating_errors.are_reported() and not any(True for _ in device_arrays((args, kwargs))):
            return self._run_reporting(args, kwargs)
        try:
            result = self._last(args, kwargs)
            return self._dispatch(args, kwargs) if result is MISS else result
        except CannotRunError as error:
            return self._run_again(error, args, kwargs)

    def __repr__(self) -> str:
        return f"<numstax.jit of {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """By its name, as functions are; one that has no name of its own is made again, with nothing compiled."""
        name: str = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (_made, (self.__wrapped__, self._options))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def _plain(self, args: tuple, kwargs: dict, reason: str = "two arguments share memory, and one is written") -> Any:
        """Run this call with NumPy.  Raises DeviceError for arrays on a GPU."""
        if any(True for _ in device_arrays((args, kwargs))):
            raise DeviceError(f"{self.__name__} cannot run on these arrays: {reason}", remedy="copy them first")
        return self.__wrapped__(*args, **kwargs)

    # --- choosing an artifact -----------------------------------------------------------------------

    def _dispatch(self, args: tuple, kwargs: dict) -> Any:
        """A call that the last artifact does not fit."""
        if elements.contains_traced(args) or elements.contains_traced(kwargs):
            return self.__wrapped__(*args, **kwargs)
        key = self._key(args, kwargs)
        known, search = self._table.get(key, ()), self._search.get(key)
        found: Any = MISS if search is None else search(args, kwargs)
        if found is not MISS:
            result, self._last = found
            return result
        return self._first_call(key, known, args, kwargs)

    def _key(self, args: tuple, kwargs: dict) -> object:
        static, dynamic = self._static, bool(self._mode)
        return (
            *[key_of(v, k in static, dynamic) for k, v in enumerate(args)],
            *[(k, key_of(v, k in static, dynamic)) for k, v in kwargs.items()],
        )

    def _first_call(self, key: object, known: Sequence[Artifact], args: tuple, kwargs: dict) -> Any:
        """Run a call that none of the `known` artifacts fits.  Of several threads one makes an artifact, for which the
        others wait."""
        there = {family.device(array) for family, array in device_arrays((args, kwargs))}
        knobs, host = process()
        place = places.place_of(there, self._device, self._backend, knobs, host)
        guard = Guard(args, kwargs, self._static, bool(self._mode), place.on_gpu)
        newest, artifact = next(iter(known), None), None
        try:
            with host.turns.turn((self, key)):
                others = takewhile(lambda a: a is not newest, self._table.get(key, ()))
                if all(other.guard.failing(args, kwargs) for other in others):
                    self._log_recompile(key, args, kwargs)
                    self._check_limits()
                    artifact = self._compile(guard, self._mode, place)
                    if artifact is None:
                        guard = Guard(args, kwargs, self._static, False, place.on_gpu)
                        artifact = self._compile(guard, "", place)
                    assert artifact is not None
                    self._keep(key, artifact)
        except MISTAKES as error:
            raise CannotRunError(str(error), mistake=error) from None
        except Exception as error:
            limited = self._fullgraph and isinstance(error, SpecialisationLimitError)
            if self._is_strict() or limited or isinstance(error, REFUSALS):
                raise
            return self._run_plain(guard, key, args, kwargs, error)
        if artifact is None:
            return self._dispatch(args, kwargs)
        result = artifact.enter(args, kwargs)
        if result is MISS:
            raise VerifyError(f"a new artifact refuses its own call: {guard.failing(args, kwargs)}")
        return result

    def _check_limits(self) -> None:
        """Raise SpecialisationLimitError when no more may be compiled (or kept, with `fullgraph`)."""
        kept = sum(map(len, self._table.values()))
        if self.compile_count >= COMPILATIONS or (self._fullgraph and kept >= SPECIALISATIONS):
            raise SpecialisationLimitError(
                f"{self.__name__} was compiled {self.compile_count} times",
                remedy="pass values that change often as float or array arguments, and use dynamic=True where sizes do",
            )

    def _keep(self, key: object, artifact: Artifact) -> None:
        with process()[1].turns.alone():
            if sum(map(len, self._table.values())) < SPECIALISATIONS:
                artifacts = (artifact, *self._table.get(key, ()))
                # what a thread knows of, it has searched
                self._search[key] = searcher([a.enter for a in artifacts])
                self._table[key] = artifacts
                self._last = artifact.enter

    def _run_plain(self, guard: Guard, key: object, args: tuple, kwargs: dict, error: Exception) -> Any:
        """Run this call with NumPy, and later ones like it; say why, once for each reason."""
        if guard.families:
            raise error
        # first, so that an exception that NumPy raises as well reaches the user as NumPy's
        result = self.__wrapped__(*args, **kwargs)
        reason = str(error) if isinstance(error, NumstaxError) else f"{type(error).__name__}: {error}"
        enter = guard.enter("plain(*args, **kwargs)", plain=self.__wrapped__)
        self._keep(key, Artifact(guard, enter, reason=reason))
        self._warn(reason, 6)
        return result

    def _run_again(self, error: CannotRunError, args: tuple, kwargs: dict) -> Any:
        """Run a call with NumPy that was not finished.  Raises the mistake that was found if NumPy finds it too."""
        mistake, remedy = error.mistake, REQUIREMENTS[error.requirement].remedy if error.requirement else ""
        if remedy and self._is_strict():
            raise PythonNumberError(str(error), None, remedy) from None
        strict = isinstance(mistake, NumstaxError) and self._is_strict()
        if mistake is not None and (strict or any(True for _ in device_arrays((args, kwargs)))):
            raise mistake from None
        try:
            result = self._plain(args, kwargs, str(error))
        except Exception as found:
            kinds = [kind for kind in type(found).__mro__ if kind not in _GENERAL]
            if isinstance(mistake, NumstaxError) and any(issubclass(type(mistake), kind) for kind in kinds):
                raise mistake.worded(str(found)) from found
            raise
        if error.requirement or mistake is not None:
            self._warn(str(error), 4)
        return result

    def _run_reporting(self, args: tuple, kwargs: dict) -> Any:
        """Run a call with NumPy, which is to report floating-point errors."""
        if self._is_strict():
            raise UnsupportedOperationError(floating_errors.MESSAGE, None, "make the call outside of np.errstate")
        result = self.__wrapped__(*args, **kwargs)
        self._warn(floating_errors.MESSAGE, 4)
        return result

    def _warn(self, reason: str, depth: int) -> None:
        """Say why a call runs as plain NumPy, once for each reason; the user's frame is so many up."""
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(f"{self.__name__} runs as plain NumPy: {reason}", NumstaxWarning, stacklevel=depth)

    # --- making an artifact -------------------------------------------------------------------------

    def _compile(self, guard: Guard, mode: str, place: places.Place) -> Artifact | None:
        """None when the sizes are not to be symbols: the function asks for them, and the backend needs numbers."""
        knobs, backend = process()[0], backends.BACKENDS[place.backend]
        knobs = replace(knobs, tune=self._tune or knobs.tune)
        shapes = ShapeEnvironment(mode)
        start = time.perf_counter()
        traced = tracer.trace(
            self.__wrapped__, *guard.given(), static_argnames=self._static_names, shapes=shapes, fill=guard.fill
        )
        guard.forget()
        seconds = time.perf_counter() - start
        if mode and shapes.was_read and not backend.supports_symbolic_shapes:
            return None
        graph = traced.graph
        inputs = _inputs(traced, guard, place)
        if mode:
            symbols = guard.add_sizes(list(zip(inputs, graph.inputs, strict=True)), shapes)
            graph = replace(graph, sizes=tuple(symbols))
        written = [position for position, _ in graph.writes]
        if any(inputs[p] in guard.odd for p in written):
            raise TraceError("an argument that is written is not in native byte order or not aligned")
        if any(o.alias and o.alias[0] == "input" and inputs[o.alias[1]] in guard.odd for o in graph.outputs):
            raise TraceError("the result is a view of an argument that is not in native byte order or not aligned")
        overlap = guard.writes(inputs, [k for k, s in enumerate(graph.inputs) if s.kind == "array"], written)
        guard.require_outside(traced.outside)
        guard.fix_products(graph)
        exchange = places.exchange_of(graph, inputs, guard.leaves, guard.families)
        compiled = backend.compile(graph, knobs, place.host, exchange)
        self.compile_count += 1
        arguments = ", ".join((*inputs, *graph.sizes))
        run = f"unflatten(call({arguments}))"
        if overlap:
            run = f"plain(args, kwargs) if {overlap} else {run}"
        call = undoing(compiled.call) if traced.draws or can_fail(graph.named()) else compiled.call
        enter = guard.enter(run, call=call, unflatten=traced.unflatten, plain=self._plain)
        artifact = Artifact(
            guard, enter, compiled.region, arguments, compiled.source, "", compiled.observed, compiled.note
        )
        self._log_compile(artifact, seconds, time.perf_counter() - start)
        return artifact

    def _log_compile(self, artifact: Artifact, tracing: float, total: float) -> None:
        knobs, _ = process()
        assert artifact.region is not None
        if "compiles" in knobs.log:
            steps = (("trace", tracing), *artifact.region.times)
            known = sum(seconds for _, seconds in steps)
            parts = ", ".join(f"{name} {s * 1e3:.1f}" for name, s in (*steps, ("machine code", total - known)))
            _log(f"compiled {self.__name__} in {total * 1e3:.1f} ms: {parts}")
        if "source" in knobs.log:
            _log(f"{pipeline.display(artifact.region.emitted)}\n{artifact.source}")

    def _log_recompile(self, key: object, args: tuple, kwargs: dict) -> None:
        """Say why one more is compiled: where asked for, and once where there are many."""
        many, asked = self.compile_count == MANY, "recompiles" in process()[0].log
        if self._table and (many or asked):
            near = self._table.get(key) or next(reversed(self._table.values()))
            reason = near[0].guard.failing(args, kwargs)
            if many:
                advice = "pass values that change often as float or array arguments, or use dynamic=True"
                text = f"{self.__name__} was compiled {MANY} times, and is now again: {reason}\n  remedy: {advice}"
                warnings.warn(text, NumstaxWarning, stacklevel=5)
            if asked:
                _log(f"compiling {self.__name__} again: {reason}")

    def _is_strict(self) -> bool:
        return process()[0].strict if self._strict is None else self._strict

    # --- looking inside -----------------------------------------------------------------------------

    def artifacts(self) -> list[Artifact]:
        """The specialisations held, each with its guard; ``str`` of one is readable."""
        return [artifact for artifacts in self._table.values() for artifact in artifacts]

    def artifact(self, *args: Any, **kwargs: Any) -> Artifact:
        """The specialisation that serves a call with these arguments, made (by running it) if there is none."""
        self(*args, **kwargs)
        return next(a for a in self._table[self._key(args, kwargs)] if not a.guard.failing(args, kwargs))

    def inspect(self) -> str:
        """Graph, loops and kernels, printed source, and wrapper of every specialisation."""
        return "\n\n".join(map(describe, self.artifacts())) or f"{self.__name__} has not been called"


_GENERAL = (Exception, BaseException, object)


@functools.cache
def process() -> tuple[Knobs, hosts.Host]:
    """The settings of this process, read on first use, and what its compiled calls share."""
    knobs = from_environ()
    return knobs, hosts.Host(knobs)


def set_num_threads(n: int) -> None:
    """Let at most `n` threads work on one kernel.  Threads of BLAS are not concerned.  Raises ValueError for n < 1."""
    if n < 1:
        raise ValueError(f"the number of threads must be positive, got {n}")
    process()[1].workers.limit = n


def get_num_threads() -> int:
    """The number of threads that work on one kernel at most."""
    return process()[1].workers.limit


def _inputs(traced: tracer.Traced, guard: Guard, place: places.Place) -> list[str]:
    """The inputs of the graph as expressions: leaves of the arguments, constants, and captured arrays read anew."""
    leaves = iter(guard.leaves)
    inputs = []
    for k in range(len(traced.graph.inputs)):
        if k in traced.constants:
            inputs.append(f"constant{k}")
            guard.names[inputs[-1]] = traced.constants[k]
            if place.backend == "cuda":
                guard.names[inputs[-1]] = to_device(traced.constants[k], place.host.device.number)
                guard.families[inputs[-1]] = OWN
        elif k in traced.captured:
            inputs.append(f"captured{k}()")
            guard.names[f"captured{k}"] = traced.captured[k]
        else:
            inputs.append(next(leaves))
    return inputs


def _made(function: Callable[..., Any], options: dict[str, Any]) -> Jitted:
    return Jitted(function, **options)


def _log(text: str) -> None:
    sys.stderr.write(f"numstax: {text}\n")


@overload
def jit(
    function: Callable[..., Any],
    *,
    strict: bool | None = ...,
    static_argnames: str | Iterable[str] = ...,
    backend: str | None = ...,
    device: str | None = ...,
    dynamic: bool | str = ...,
    fullgraph: bool = ...,
    tune: str | None = ...,
) -> Jitted: ...
@overload
def jit(
    *,
    strict: bool | None = ...,
    static_argnames: str | Iterable[str] = ...,
    backend: str | None = ...,
    device: str | None = ...,
    dynamic: bool | str = ...,
    fullgraph: bool = ...,
    tune: str | None = ...,
) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(
    function: Callable[..., Any] | None = None,
    *,
    strict: bool | None = None,
    static_argnames: str | Iterable[str] = (),
    backend: str | None = None,
    device: str | None = None,
    dynamic: bool | str = False,
    fullgraph: bool = False,
    tune: str | None = None,
) -> Jitted | Callable[[Callable[..., Any]], Jitted]:
    """Compile a NumPy function; use bare (``@jit``), with options (``@jit(strict=True)``), or on methods.

    Parameters
    ----------
    function : takes and returns arrays, scalars, and tuples, lists, dicts and dataclasses of them.
    strict : raise where a call would otherwise run as plain NumPy with a warning (default: NUMSTAX_STRICT).
    static_argnames : parameters whose values are part of the specialisation, whatever their type.
    backend : 'cpu' to compile; 'reference' to run the graph with NumPy, op by op; 'simulate' to run kernels for a GPU
        in an interpreter (default: NUMSTAX_BACKEND).
    device : 'cpu', or 'cuda' or 'cuda:1' to run on a GPU, where arrays of NumPy are copied to and results are copied
        from.  By default calls run where their arrays are: those of CuPy, torch, JAX and others that speak DLPack or
        ``__cuda_array_interface__`` stay on their GPU, and results are arrays of the same library.
    dynamic : True: one specialisation for all sizes and integers that its guards admit; 'bucket': for sizes between
        two powers of two.  False: one for each shape.
    fullgraph : raise SpecialisationLimitError where a specialisation would not be kept for later calls.
    tune : measure tilings of kernels at the first call, and keep the fastest on disk.  'default' tries those next to
        the formulas', 'coordinate' goes on from the best, 'random' tries 60 more, 'off' none (default: NUMSTAX_TUNE).

    Returns
    -------
    A `Jitted`, called like `function`, with results of the same types, dtypes and shapes.  Its calls raise
    UnsupportedDtypeError or UnsupportedArrayError for arrays that cannot be compiled; ShapeError, CastError and the
    like where NumPy raises; and, under `strict`, UnsupportedArgumentError for other arguments that cannot, and
    TraceError for what cannot be traced.
    """
    if backend not in (None, "cpu", "reference", "simulate"):
        raise ValueError(f"backend must be 'cpu', 'reference' or 'simulate', got {backend!r}")
    if device is not None and not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:' and a number, got {device!r}")
    if tune not in (None, *TUNING):
        raise ValueError(f"tune must be one of {', '.join(TUNING)}, got {tune!r}")
    if dynamic not in (False, True, "bucket"):
        raise ValueError(f"dynamic must be False, True or 'bucket', got {dynamic!r}")
    wrap = functools.partial(
        Jitted,
        strict=strict,
        static_argnames=static_argnames,
        backend=backend,
        device=device,
        dynamic=dynamic,
        fullgraph=fullgraph,
        tune=tune,
    )
    return wrap if function is None else wrap(function)


def make_graph(
    function: Callable[..., Any],
    args: Iterable[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    tracing_mode: str = "real",
) -> Graph:
    """The graph that tracing `function` with these arguments records; nothing is compiled.

    `tracing_mode`: 'real' for these sizes, 'symbolic' for all sizes on which the function decides as on these.
    """
    if tracing_mode not in ("real", "symbolic"):
        raise ValueError(f"tracing_mode must be 'real' or 'symbolic', got {tracing_mode!r}")
    shapes = ShapeEnvironment(tracing_mode if tracing_mode == "symbolic" else "")
    guard = Guard(tuple(args), kwargs or {}, frozenset(), bool(shapes.mode))
    return tracer.trace(function, *guard.given(), shapes=shapes).graph
