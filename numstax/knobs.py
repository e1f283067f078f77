"""Knobs: what a user can set from outside, through environment variables.

`from_environ` takes a mapping such as `os.environ` and gives a frozen, typed `Knobs`; a value that cannot be
understood, or a NUMSTAX_ variable that does not exist, is a `KnobError` naming the variable.  Fields marked
`changes_code` decide what code is generated, so they belong to every cache key (`Knobs.code_key`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numstax.errors import KnobError
from numstax.later import Later

if TYPE_CHECKING:
    import difflib
else:
    difflib = Later("difflib")

PREFIX = "NUMSTAX_"
LOG_TOPICS = ("compiles", "recompiles", "passes", "source", "tuning")


TUNING = ("off", "default", "coordinate", "random")


def _whole(low: int, high: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError
        return value

    parse.__doc__ = f"a whole number from {low}" + (f" to {high}" if high is not None else "")
    return parse


def _flag(text: str) -> bool:
    """0 or 1"""
    return {"0": False, "1": True}[text]


def _topics(text: str) -> frozenset[str]:
    chosen = frozenset(filter(None, (word.strip() for word in text.split(","))))
    if "all" in chosen:
        return frozenset(LOG_TOPICS)
    if not chosen <= set(LOG_TOPICS):
        raise ValueError
    return chosen


_topics.__doc__ = f"a comma-separated list of {', '.join(LOG_TOPICS)}, or all"


def _directory(text: str) -> Path:
    """a directory path"""
    if not text:
        raise ValueError
    return Path(text).expanduser()


def _backend(text: str) -> str:
    """cpu, cuda, reference or simulate"""
    if text not in ("cpu", "cuda", "reference", "simulate"):
        raise ValueError
    return text


def _method(text: str) -> str:
    """off, default, coordinate or random"""
    if text not in TUNING:
        raise ValueError
    return text


def _default_cache_dir() -> Path:
    root = os.environ.get("XDG_CACHE_HOME")
    # expanduser leaves '~' alone where there is no home directory
    return (Path(root) if root else Path(os.path.expanduser("~/.cache"))) / "numstax"


def _knob(parse: Callable[[str], Any], doc: str, changes_code: bool = False, **default: Any) -> Any:
    return field(metadata={"parse": parse, "doc": doc, "changes_code": changes_code}, **default)


@dataclass(frozen=True, slots=True)
class Knobs:
    """One field for each knob; the environment variable is NUMSTAX_ and the field's name in capitals."""

    log: frozenset[str] = _knob(_topics, "what to print to stderr while compiling and running", default=frozenset())
    cache: bool = _knob(_flag, "keep compiled code on disk", default=True)
    cache_dir: Path = _knob(_directory, "where compiled code is kept", default_factory=_default_cache_dir)  # noqa: RUF009 (a field)
    check: int = _knob(
        _whole(0, 2),
        "0: none; 1: verify the IR once before code is printed; 2: verify types and bounds after every pass",
        default=0,
    )
    threads: int = _knob(_whole(0), "worker threads; 0: as many as the process may use cores", default=0)
    strict: bool = _knob(_flag, "raise where a call would otherwise run as plain NumPy with a warning", default=False)
    parallel_threshold: int = _knob(
        _whole(0), "vector operations below which one thread does it all; waking another takes 30 us", default=1 << 17
    )
    pool_bytes: int = _knob(_whole(0), "bytes of released array memory kept for reuse", default=1 << 30)
    tune: str = _knob(
        _method,
        "measure tilings: default: those next to the formulas'; coordinate: and descend; random: and 60 more",
        default="off",
    )
    backend: str = _knob(
        _backend,
        "cpu: compile; cuda: run on a GPU; reference: NumPy op by op; simulate: GPU kernels in an interpreter",
        changes_code=True,
        default="cpu",
    )

    def code_key(self) -> tuple[tuple[str, object], ...]:
        """The settings that compiled code depends on."""
        return tuple((f.name, getattr(self, f.name)) for f in fields(self) if f.metadata["changes_code"])


def variable(name: str) -> str:
    """The environment variable of a knob: ``cache_dir`` -> ``NUMSTAX_CACHE_DIR``."""
    return PREFIX + name.upper()


def from_environ(environ: Mapping[str, str] | None = None) -> Knobs:
    """The knobs set in `environ` (default: `os.environ`), defaults for the others."""
    environ = os.environ if environ is None else environ
    known = {variable(f.name): f for f in fields(Knobs)}
    chosen: dict[str, Any] = {}
    for key, text in environ.items():
        if not key.startswith(PREFIX):
            continue
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise KnobError(
                f"there is no setting {key}",
                remedy=f"did you mean {close[0]}?" if close else f"settings are {', '.join(known)}",
            )
        spec = known[key]
        parse = spec.metadata["parse"]
        try:
            chosen[spec.name] = parse(text)
        except (ValueError, KeyError):
            raise KnobError(
                f"{key}={text!r} is not {parse.__doc__}", remedy=f"{key} sets: {spec.metadata['doc']}"
            ) from None
    return Knobs(**chosen)


def describe() -> str:
    """One line for each knob: variable, default, what it does."""
    defaults = Knobs()
    rows = []
    for f in fields(Knobs):
        value = getattr(defaults, f.name)
        shown = int(value) if isinstance(value, bool) else "" if value == frozenset() else value
        mark = "  [changes code]" if f.metadata["changes_code"] else ""
        rows.append(f"{variable(f.name)}={shown}  {f.metadata['doc']}{mark}")
    return "\n".join(rows)
