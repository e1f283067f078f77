"""The disk cache of compiled programs, addressed by content.

A Program enters; its machine code leaves (`ObjectCode` for the CPU, `Cubin` for a GPU), compiled only when neither
this process nor the directory has it.  The key covers everything the code depends on: text without comments,
parameters, intrinsics, versions, the processor, and the knobs that change code.  An entry is two files:
``<name>-<key>.o`` (a JSON line with checksum and what else is known of the code, then the code) and
``<name>-<key>.py`` (the readable source).  Files appear by
renaming, so processes can share a directory; a damaged file counts as absent, and a directory that cannot be
used costs one warning and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from numstax.errors import NumstaxWarning
from numstax.program import Instruction, Intrinsic, Param, Program
from numstax.records import record
from numstax.runtime.cubin import Cubin
from numstax.runtime.load import ObjectCode, processor

Code = TypeVar("Code", bound=ObjectCode | Cubin)

FORMAT = "4"
"""Goes up when the layout of the files or the calling convention of entries changes."""

_COMMENT = re.compile(r"\s*#.*")


@record
class Entry:
    """One cached program, for listings."""

    name: str
    nbytes: int
    path: Path


class DiskCache(Generic[Code]):
    """Code of one `kind` by content key, in `directory` (None: nowhere)."""

    def __init__(
        self,
        directory: Path | None,
        settings: tuple[tuple[str, object], ...] = (),
        kind: Any = ObjectCode,
    ) -> None:
        self.directory, self.kind = directory, kind
        self._settings = repr(settings)
        self._warned = False

    def key(self, program: Program) -> str:
        """What the code of `program` depends on, as 32 hexadecimal digits."""
        parts = (
            FORMAT,
            _COMMENT.sub("", program.text),
            program.target,
            f"{program.block} {program.resident} {program.cluster}",
            program.entry,
            _kinds(program.params),
            *map(_intrinsic_text, program.intrinsics),
            *(f"{s.name} {_kinds(s.params)}" for s in program.calls),
            *(_gpu_surroundings() if self.kind is Cubin else _surroundings()),
            self._settings,
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def get(self, program: Program, key: str, compile_program: Callable[[Program], Code]) -> Code:
        """The code of `program`, read from the directory or compiled and written there."""
        found = self.read(program, key)
        if found is None:
            found = compile_program(program)
            self.write(program, key, found)
        return found

    def _path(self, program: Program, key: str) -> Path | None:
        return None if self.directory is None else self.directory / f"{program.name}-{key}.o"

    def read(self, program: Program, key: str) -> Code | None:
        """The code of `program` if the directory has it."""
        path = self._path(program, key)
        if path is None:
            return None
        try:
            head, _, code = path.read_bytes().partition(b"\n")
            facts = json.loads(head)
            if facts.pop("sha256") == hashlib.sha256(code).hexdigest():
                return self.kind(code, **{k: tuple(v) if type(v) is list else v for k, v in facts.items()})  # type: ignore[no-any-return]
        except FileNotFoundError:
            pass
        except OSError as error:
            self._warn(error)
        except (ValueError, LookupError, TypeError):
            pass  # damaged: compile again and replace it
        return None

    def write(self, program: Program, key: str, compiled: Code) -> None:
        """Keep the code of `program`."""
        path = self._path(program, key)
        if path is None:
            return
        facts = {f.name: getattr(compiled, f.name) for f in fields(compiled) if f.name != "code"}
        facts["sha256"] = hashlib.sha256(compiled.code).hexdigest()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path.with_suffix(".py"), program.text.encode())
            replace_file(path, json.dumps(facts).encode() + b"\n" + compiled.code)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            text = (
                f"the cache directory {self.directory} cannot be used ({error}); compiled code is kept in memory only"
            )
            warnings.warn(text, NumstaxWarning, stacklevel=2)

    def entries(self) -> list[Entry]:
        """What the directory holds, largest first."""
        found = [Entry(p.name.rpartition("-")[0], _size(p) + _size(p.with_suffix(".py")), p) for p in self._files(".o")]
        return sorted(found, key=lambda e: (-e.nbytes, e.name))

    def clear(self) -> int:
        """Remove every entry; the number of bytes freed."""
        freed = 0
        for path in (*self._files(".o"), *self._files(".py"), *self._files(".tmp")):
            size = _size(path)
            with contextlib.suppress(OSError):
                path.unlink()
                freed += size
        return freed

    def _files(self, suffix: str) -> Iterator[Path]:
        if self.directory is None or not self.directory.is_dir():
            return iter(())
        return self.directory.glob(f"*-{'[0-9a-f]' * 32}{suffix}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that other processes see whole or not at all."""
    temporary = path.with_name(f"{path.stem}{path.suffix}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _kinds(params: tuple[Param, ...]) -> str:
    return repr([(p.kind, str(p.dtype)) for p in params])


@cache
def _intrinsic_text(row: Intrinsic | Instruction) -> str:
    if isinstance(row, Intrinsic):
        return repr((row.name, row.params, row.result, row.code))
    return repr(row)


@cache
def _surroundings() -> tuple[str, ...]:
    """The compiler, its version and ours, and the processor.  Importing Numba to ask would take 0.3 s."""
    return (
        *map(_text_beside, ("compile_cpu.py", "expand.py", "outer_products.py")),
        _version_file("numba"),
        np.__version__,
        *processor(),
    )


@cache
def _gpu_surroundings() -> tuple[str, ...]:
    """The compiler, and its version and ours; the processor is the program's target."""
    return (
        *map(_text_beside, ("compile_cuda.py", "expand.py", "nvvm.py")),
        *map(_version_of, ("numba-cuda", "nvidia-nvjitlink", "nvidia-nvvm")),
    )


def _text_beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def _version_file(package: str) -> str:
    spec = find_spec(package)
    return Path(spec.origin).with_name("_version.py").read_text() if spec and spec.origin else ""


def _version_of(package: str) -> str:
    """The installed version, '' where there is none."""
    import importlib.metadata  # takes 30 ms: only for programs for GPUs

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
