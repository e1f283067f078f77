"""Plans, and all that goes with them, as JSON and back: dataclasses, tuples, dtypes, numbers, functions by name.

`to_json` takes a value; `from_json` gives an equal one.  What JSON lacks becomes an object with one key that starts
with a dollar sign.  Functions and types are stored as module and name and imported again: read only what you trust.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from types import EllipsisType
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import ArtifactError

Json = Any
"""None, bool, int, str, and lists and dicts of them."""


def to_json(value: Any) -> Json:
    """Raises ArtifactError for a value that has no name to import it by."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is list:
        return [to_json(item) for item in value]
    if kind in _ENCODERS:
        tag, encode = _ENCODERS[kind]
        return {f"${tag}": encode(value)}
    if isinstance(value, np.dtype):
        return {"$dtype": dtypes.name(value) if dtypes.is_supported(value) else value.str}
    if isinstance(value, np.generic):
        return {"$scalar": [to_json(value.dtype), value.tobytes().hex()]}
    if is_dataclass(value) and kind.__module__.startswith("numstax."):
        return {"$": kind.__name__, **{f.name: to_json(getattr(value, f.name)) for f in fields(value)}}
    return {"$name": _import_path(value)}


def from_json(data: Json, types: Mapping[str, type]) -> Any:
    """`types` : the dataclasses that may occur.  Raises ArtifactError for data that `to_json` does not make."""
    try:
        return _decode(data, types)
    except (ValueError, LookupError, TypeError, AttributeError, ImportError, StopIteration) as error:
        raise ArtifactError(f"the saved data cannot be read: {type(error).__name__}: {error}") from error


def _decode(data: Json, types: Mapping[str, type]) -> Any:
    if isinstance(data, list):
        return [_decode(item, types) for item in data]
    if not isinstance(data, dict):
        return data
    if "$" in data:
        return types[data["$"]](**{key: _decode(item, types) for key, item in data.items() if key != "$"})
    ((tag, body),) = data.items()
    return _DECODERS[tag](_decode(body, types))


_ENCODERS: dict[type, tuple[str, Callable[[Any], Json]]] = {
    tuple: ("tuple", lambda v: [to_json(item) for item in v]),
    float: ("float", float.hex),
    complex: ("complex", lambda v: [v.real.hex(), v.imag.hex()]),
    bytes: ("bytes", bytes.hex),
    slice: ("slice", lambda v: [to_json(item) for item in (v.start, v.stop, v.step)]),
    dict: ("dict", lambda v: [[to_json(key), to_json(item)] for key, item in v.items()]),
    EllipsisType: ("ellipsis", lambda v: None),
}


def _dtype(text: str) -> np.dtype:
    return next((d for d in dtypes.SUPPORTED if dtypes.name(d) == text), None) or np.dtype(text)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "$tuple": tuple,
    "$float": float.fromhex,
    "$complex": lambda v: complex(*map(float.fromhex, v)),
    "$bytes": bytes.fromhex,
    "$slice": lambda v: slice(*v),
    "$dict": dict,
    "$ellipsis": lambda v: ...,
    "$dtype": _dtype,
    "$scalar": lambda v: np.frombuffer(bytes.fromhex(v[1]), v[0])[0],
    "$name": lambda v: _imported(*v),
}


def _import_path(value: Any) -> list[str]:
    """Module and name under which `value` is found."""
    module: str = getattr(value, "__module__", "") or "numpy"
    name: str = getattr(value, "__qualname__", "") or getattr(value, "__name__", "")
    try:
        if _imported(module, name) is value:
            return [module, name]
    except (ImportError, AttributeError):
        pass
    raise ArtifactError(f"{value!r} cannot be saved", remedy="only what can be imported by its name can")


def _imported(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(module))
