"""One specialisation of a function: its guard, its compiled code, and what is to be seen of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from numstax import pipeline
from numstax.guards import Guard
from numstax.records import record
from numstax.requirements import CannotRunError
from numstax.trace.draws import Ticket, form

if TYPE_CHECKING:
    from numpy.random import Generator

    from numstax.runtime.launch import Launcher


@record
class Artifact:
    """One specialisation.

    enter : (args, kwargs) -> result, or MISS when the guard does not hold.
    arguments : the arguments of the compiled code, as an expression in the guard's names.
    reason : why calls like this one run as plain NumPy; '' when they are compiled.
    observed : makes the compiled code once more, for an observer.  note : what else is to be said about how it runs.
    """

    guard: Guard
    enter: Callable[[tuple, dict], Any]
    region: pipeline.Region | None = None
    arguments: str = ""
    source: str = ""
    reason: str = ""
    observed: Callable[[Callable[[str], None]], Launcher] | None = None
    note: str = ""

    def __str__(self) -> str:
        what = f"plain NumPy: {self.reason}" if self.reason else "compiled"
        return "\n".join((f"{what}, when", *(f"  {condition}" for condition in self.guard.conditions)))


def undoing(call: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled call that may fail, and then has changed nothing: where NumPy has to do it again, it draws the same
    random numbers."""

    def run(*arguments: Any) -> Any:
        generators = [a.generator for a in arguments if type(a) is Ticket]
        with _alone(generators):
            states = [g.bit_generator.state for g in generators]
            try:
                return call(*arguments)
            except Exception as error:
                for generator, state in zip(generators, states, strict=True):
                    generator.bit_generator.state = state
                if isinstance(error, CannotRunError):
                    raise
                raise CannotRunError(str(error), mistake=error) from None

    return run


@contextmanager
def _alone(generators: Sequence[Generator]) -> Iterator[None]:
    """Nobody else draws from those that programs draw from: these take no lock themselves."""
    locks = {id(g.bit_generator.lock): g.bit_generator.lock for g in generators if form(g)}
    with ExitStack() as stack:
        for _, lock in sorted(locks.items()):
            stack.enter_context(lock)
        yield


def describe(artifact: Artifact) -> str:
    """Everything about one specialisation as text."""
    parts = [str(artifact)]
    region = artifact.region
    if region is not None:
        parts += [f"graph:\n{pipeline.display(region.graph)}"]
        if region.schedule is not None:
            parts += [f"kernels:\n{pipeline.display(region.schedule)}", f"source:\n{pipeline.display(region.emitted)}"]
            parts += [f"wrapper:\n{artifact.source}"]
    return "\n\n".join(parts)
