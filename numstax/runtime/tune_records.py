"""What was found to be fastest, kept on disk (Algorithm 9.1, lines 1 and 7).

A key and a record enter; the record leaves when the key is asked for again, on the same device and with the same
version.  The key is a hash of the kernel's source and of what was searched, so an unchanged source keeps its answer.  A
record that is damaged, of another device or of another version counts as absent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from numstax.records import record
from numstax.runtime.cache import FORMAT, replace_file
from numstax.tiles.space import Config


@record
class Record:
    """config : the fastest of `trials`, and its seconds.  name : of the kernel.  device, version : where it was
    measured, and by what."""

    name: str
    config: Config
    seconds: float
    trials: int
    device: str
    version: str


class Records:
    """The records in a directory; None: nowhere."""

    def __init__(self, directory: Path | None, device: str, version: str) -> None:
        self.directory = None if directory is None else directory / "tuned"
        self.device, self.version = device, f"{version} {FORMAT}"

    def key(self, *parts: str) -> str:
        """Of what an answer depends on: source, space, method."""
        return hashlib.sha256("\0".join((*parts, self.device)).encode()).hexdigest()[:32]

    def read(self, key: str) -> Record | None:
        if self.directory is None:
            return None
        try:
            found = json.loads((self.directory / f"{key}.json").read_text())
            made = Record(**{**found, "config": tuple(map(int, found["config"])), "seconds": float(found["seconds"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return made if (made.device, made.version) == (self.device, self.version) else None

    def write(self, key: str, name: str, config: Config, seconds: float, trials: int) -> None:
        """Keep an answer; a directory that cannot be written keeps none."""
        if self.directory is None:
            return
        made = Record(name, config, seconds, trials, self.device, self.version)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            replace_file(self.directory / f"{key}.json", json.dumps(asdict(made), indent=1).encode())
        except OSError:
            return

    def all(self) -> Iterator[Record]:
        """Those of this device and version, by name."""
        paths = sorted(self.directory.glob("*.json")) if self.directory is not None else []
        found = (made for path in paths if (made := self.read(path.stem)) is not None)
        return iter(sorted(found, key=lambda made: made.name))
