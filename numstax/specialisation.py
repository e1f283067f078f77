"""One specialisation of a function: its guard, its compiled code, and what is to be seen of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numstax import pipeline
from numstax.guards import Guard
from numstax.records import record
from numstax.requirements import CannotRunError
from numstax.trace.captures import readable
from numstax.trace.draws import Ticket

if TYPE_CHECKING:
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
        conditions = (readable(condition, self.guard.names) for condition in self.guard.conditions)
        return "\n".join((f"{what}, when", *(f"  {condition}" for condition in conditions)))


def undoing(call: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled call that may fail, and then has changed nothing: where NumPy has to do it again, it draws the same
    random numbers."""

    def run(*arguments: Any) -> Any:
        tickets = [a for a in arguments if type(a) is Ticket]
        held = []
        try:
            # nobody else draws from those that programs draw from: these take no locks themselves
            for lock in sorted({t.lock for t in tickets if t.lock is not None}, key=id):
                lock.acquire()
                held.append(lock)
            bits = [t.generator.bit_generator for t in tickets]
            states = [b.state for b in bits]
            try:
                return call(*arguments)
            except Exception as error:  # whatever it is, NumPy does the call again, and raises what it raises
                for b, state in zip(bits, states, strict=True):
                    b.state = state
                if isinstance(error, CannotRunError):
                    raise
                raise CannotRunError(str(error), mistake=error) from None
        finally:
            for lock in held:
                lock.release()

    return run


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
