"""A directory of files with checksums: how an exported function is kept.

Files enter by name and content; the same leave, or an ArtifactError that names what is damaged.  ``SHA256SUMS`` is
written last, in the format of the command of that name, so an interrupted save is found too.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from numstax.errors import ArtifactError

SUMS = "SHA256SUMS"


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make the directory, or replace what an earlier `write` left there.

    The files are written beside it first, so that a save that is interrupted leaves what was there.
    """
    directory = directory.resolve()
    try:
        others = _others(directory)
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as beside:
            new, old = Path(beside, "new"), Path(beside, "old")
            new.mkdir()
            for name, content in files.items():
                (new / name).write_bytes(content)
            lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())]
            (new / SUMS).write_text("".join(lines))
            for name in others:
                copy = shutil.copytree if (directory / name).is_dir() else shutil.copy2
                copy(directory / name, new / name)
            if directory.exists():
                directory.rename(old)
            new.rename(directory)
    except OSError as error:
        raise ArtifactError(f"{directory} cannot be written: {error}") from error


def _others(directory: Path) -> list[str]:
    """Files beside those of an earlier `write`.  Raises ArtifactError where there was none."""
    found = [path.name for path in directory.iterdir()] if directory.exists() else []
    if found and SUMS not in found:
        raise ArtifactError(f"{directory} holds other files", remedy="save to a new directory")
    return [name for name in found if name not in (SUMS, *(_sums(directory) if found else ()))]


def read(directory: Path) -> dict[str, bytes]:
    """Every file that was written, unchanged."""
    files = {}
    for name, digest in _sums(directory).items():
        try:
            content = files[name] = (directory / name).read_bytes()
        except OSError as error:
            raise ArtifactError(f"{directory} is incomplete: {error}", remedy="export and save again") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ArtifactError(f"{directory / name} is damaged: its checksum differs", remedy="export and save again")
    return files


def _sums(directory: Path) -> dict[str, str]:
    try:
        lines = (directory / SUMS).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(f"{directory} holds no exported function: {error}") from error
    found = [re.fullmatch(r"([0-9a-f]{64})  ([\w.-]+)", line) for line in lines]
    if not found or None in found:
        raise ArtifactError(f"{directory / SUMS} is damaged", remedy="export and save again")
    return {match[2]: match[1] for match in found if match is not None}
