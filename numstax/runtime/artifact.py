"""A directory of files with checksums: how an exported function is kept.

Files enter by name and content; the same leave, or an ArtifactError that names what is damaged.  ``SHA256SUMS`` is
written last, in the format of the command of that name, so an interrupted save is found too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from numstax.errors import ArtifactError

SUMS = "SHA256SUMS"


def write(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make the directory, or replace what an earlier `write` left there."""
    try:
        if directory.exists() and not (directory / SUMS).exists() and any(directory.iterdir()):
            raise ArtifactError(f"{directory} holds other files", remedy="save to a new directory")
        directory.mkdir(parents=True, exist_ok=True)
        if (directory / SUMS).exists():
            for name in _sums(directory):
                (directory / name).unlink(missing_ok=True)
            (directory / SUMS).unlink()
        for name, content in files.items():
            (directory / name).write_bytes(content)
        lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())]
        (directory / SUMS).write_text("".join(lines))
    except OSError as error:
        raise ArtifactError(f"{directory} cannot be written: {error}") from error


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
