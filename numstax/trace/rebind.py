"""Running a function so that what it reads from outside can be traced, without touching NumPy or the module.

The tracer runs a copy of the function whose globals are a view of the live ones.  The view gives stand-ins for
NumPy's creation functions and scalar types, copies of the user's own functions and classes that are rebound in
turn, handles for arrays, and watched copies of containers and objects.  Other threads see none of this.
Everything read is recorded in Captures; writes to the outside raise SideEffectError.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import math
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import SideEffectError, UnsupportedOperationError
from numstax.trace import classes, generators, host, python_names, substitutes
from numstax.trace.array import TracedArray
from numstax.trace.captures import MISSING, Attribute, Captures, Getter, always, item
from numstax.trace.control import Control
from numstax.trace.library import LibraryObject, library_function
from numstax.trace.origin import user_origin
from numstax.trace.source import CONTROL, rewrite

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_STDLIB = os.path.dirname(os.__file__)
_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_FORMS = f"{_PACKAGE}forms.py"
"""Functions of this file hold loops, which are captured as the user's are."""
_PURE = set(
    "math cmath operator functools itertools collections typing types dataclasses enum numbers copy warnings string "
    "abc contextlib fractions decimal statistics bisect heapq array builtins sys __future__ inspect textwrap re".split()
)
"""Modules of the standard library whose functions depend on nothing but their arguments."""
_LIBRARIES = ("numpy", "scipy")
_SCALAR_TYPES = {float, complex, *(d.type for d in dtypes.SUPPORTED if d not in dtypes.ML_FLOATS)}
_SMALL = 1024
"""Captured arrays of at most so many elements may be taken for constants."""
_HEAP_TYPE = 1 << 9
"""The flag of classes written in Python."""
_AS_THEY_ARE = (
    bool, int, float, complex, str, bytes, np.generic, np.dtype, type(None), type(Ellipsis), slice, range, enum.Enum,
    TracedArray, np.ufunc, types.MethodDescriptorType, types.WrapperDescriptorType,
)  # fmt: skip


class Rebinder:
    def __init__(self, rec: Recorder) -> None:
        self.rec = rec
        self.captures = Captures()
        self.control = Control(rec)
        rec.namespace = ModuleView(self, np)
        self._memo: dict[int, tuple[object, Any]] = {}
        self._views: dict[int, GlobalsView] = {}
        self._copies: list[tuple[str, Callable[[], list[Any]], Callable[[], list[Any]]]] = []
        """What the function was given in place of outside containers: name, items now, items as given."""
        self.originals: dict[type, type] = {}
        """Rebound classes and what they are copies of."""

    # --- values -----------------------------------------------------------------------------------

    def value(self, value: Any, name: str, getter: Getter) -> Any:
        """What traced code sees for an object from outside; `getter` reads the object again."""
        if isinstance(value, _AS_THEY_ARE):
            return value
        found = self._memo.get(id(value))
        if found is None:
            substitute = self._substitute(value, name, getter)
            found = self._memo.setdefault(id(value), (value, substitute))
        return found[1]

    def _substitute(self, value: Any, name: str, getter: Getter) -> Any:
        if isinstance(value, np.ndarray):
            return self._array(value, name, getter)
        if host.is_generator(value):
            handle = generators.caller_generator(self.rec, value, name)
            self.captures.getters[len(self.rec.inputs) - 1] = lambda: host.Ticket(getter())
            return handle
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, type):
            return self._type(value)
        if isinstance(value, np.vectorize):
            raise classes.refused(np.vectorize)
        if isinstance(value, types.FunctionType):
            return self._function_value(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(
                self.value(value.__func__, name, always(value.__func__)),
                self.value(value.__self__, name, always(value.__self__)),
            )
        if isinstance(value, functools.partial):
            function, *parts = (self.value(v, name, always(v)) for v in (value.func, *value.args))
            words = {k: self.value(v, name, always(v)) for k, v in value.keywords.items()}
            return functools.partial(function, *parts, **words)
        if type(value).__module__.startswith("numstax.") and isinstance(
            getattr(value, "__wrapped__", None), types.FunctionType
        ):
            return self.function(value.__wrapped__)
        if (getattr(value, "__module__", None) or "").startswith("numpy.random") and callable(value):
            return getattr(substitutes.numpy_object(self.rec, "random"), value.__name__)
        if isinstance(value, types.BuiltinFunctionType):
            return self._builtin_function(value)
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._container(value, name, getter)
        if _root(type(value).__module__) in _LIBRARIES:
            if substitutes.needs_stand_in(value):
                return substitutes.numpy_function(self.rec, value)
            if _root(type(value).__module__) == "numpy" and callable(value) and not host.draws_numbers(value):
                return value
            if _root(type(value).__module__) == "scipy":
                return LibraryObject(self.rec, value)
        if type(value).__module__ == "uarray":
            return library_function(self.rec, value)
        if type(value).__module__ in ("functools", "typing"):
            return value
        return self._instance(value, name)

    def _array(self, value: np.ndarray, name: str, getter: Getter) -> TracedArray:
        if type(value) not in (np.ndarray, np.memmap):
            raise UnsupportedOperationError(
                f"the captured {type(value).__name__} {name!r} cannot be compiled", user_origin()
            )
        if not value.dtype.isnative or not value.flags.aligned:
            raise UnsupportedOperationError(
                f"the captured array {name!r} is not in native byte order or not aligned", user_origin()
            )
        handle = self.rec.input(value, name)
        position = len(self.rec.inputs) - 1
        self.captures.getters[position] = getter
        self.captures.watch(getter, value)
        if value.size <= _SMALL:
            self.rec.pins[position] = functools.partial(
                self.captures.watch, lambda: np.asarray(getter()).tobytes(), value.tobytes()
            )
        return handle

    # --- functions --------------------------------------------------------------------------------

    def _builtin_function(self, function: Any) -> Any:
        if python_names.is_math(function):
            return python_names.math_function(self.rec, function.__name__)
        if substitutes.needs_stand_in(function):
            return substitutes.numpy_function(self.rec, function)
        holder = function.__self__
        if not (holder is None or isinstance(holder, types.ModuleType | type)) or _is_impure(function.__module__ or ""):
            raise SideEffectError(f"{function.__qualname__}() inside a traced function", user_origin())
        return function

    def _function_value(self, function: types.FunctionType) -> Any:
        root = _root(function.__module__ or "")
        if root in ("numpy", "numstax") and substitutes.needs_stand_in(function):
            return substitutes.numpy_function(self.rec, function)
        if root in _LIBRARIES:
            return library_function(self.rec, function)
        if not _is_library(function.__code__.co_filename):
            return self.function(function)
        if _is_impure(root):
            raise SideEffectError(f"{function.__module__}.{function.__name__} inside a traced function", user_origin())
        return function

    def function(self, function: types.FunctionType) -> types.FunctionType:
        """The copy of a user's function that reads through a view of its globals."""
        found = self._memo.get(id(function))
        if found is not None:
            return found[1]
        _check_code(function.__code__)
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        code = rewrite(function) or function.__code__
        copy = types.FunctionType(code, self._view(function.__globals__), function.__name__, None, cells)
        self._memo[id(function)] = (function, copy)
        names = function.__code__.co_freevars
        for name, old, new in zip(names, function.__closure__ or (), cells, strict=True):
            try:
                held = old.cell_contents
            except ValueError:
                continue
            getter = functools.partial(getattr, old, "cell_contents")
            if not isinstance(held, np.ndarray):
                self.captures.watch(getter, held)
            new.cell_contents = self.value(held, name, getter)
        defaults = function.__defaults__ or ()
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]
        named = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        copy.__defaults__ = tuple(self.value(v, name, always(v)) for name, v in named) or None
        words = function.__kwdefaults__ or {}
        copy.__kwdefaults__ = {k: self.value(v, k, always(v)) for k, v in words.items()} or None
        self._give_attributes(function, copy)
        return copy

    def _give_attributes(self, function: types.FunctionType, copy: types.FunctionType) -> None:
        """Attributes that the user has set on the function."""
        for name, held in vars(function).items():
            if name != "__wrapped__":
                getter = functools.partial(vars(function).get, name, MISSING)
                if not isinstance(held, np.ndarray):
                    self.captures.watch(getter, held)
                setattr(copy, name, self.value(held, f"{function.__name__}.{name}", getter))
        before = [*vars(copy).items()]
        self._copies.append((function.__name__, lambda: [*vars(copy).items()], lambda: before))

    def _view(self, namespace: dict[str, Any]) -> GlobalsView:
        found = self._views.get(id(namespace))
        if found is None:
            found = self._views[id(namespace)] = GlobalsView(self, namespace)
        return found

    # --- modules and classes --------------------------------------------------------------------------

    def _module(self, module: types.ModuleType) -> Any:
        if _is_impure(module.__name__):
            return substitutes.Refused(module.__name__)
        if module.__name__.startswith("numpy.random"):
            return substitutes.numpy_object(self.rec, "random")
        return ModuleView(self, module)

    def _type(self, cls: type) -> type:
        if cls in _SCALAR_TYPES:
            return substitutes.scalar_type(self.rec, cls)
        if (stand_in := classes.numpy_class(self.rec, cls)) is not None:
            return stand_in
        file = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
        own = cls.__module__ == "__main__" or (
            file and not _is_library(file) and _root(cls.__module__) not in _LIBRARIES
        )
        if not own or type(cls) is not type or issubclass(cls, BaseException):
            return cls
        return self._class(cls)

    def _class(self, cls: type) -> type:
        """A subclass with the same methods, rebound."""
        members: dict[str, Any] = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__}
        for base in reversed(cls.__mro__[:-1]):
            if _root(base.__module__) in ("builtins", *_LIBRARIES):
                continue
            for name, member in vars(base).items():
                rebound = self._member(member)
                if rebound is not None:
                    members[name] = rebound
                elif not (name.startswith("__") or hasattr(type(member), "__get__")):
                    members[name] = self._class_attribute(base, name)
        copy = type(cls.__name__, (cls,), members)
        self.originals[copy] = cls
        before = [*vars(copy).items()]
        self._copies.append((cls.__name__, lambda: [*vars(copy).items()], lambda: before))
        return copy

    def _class_attribute(self, cls: type, name: str) -> Attribute:
        getter = functools.partial(vars(cls).get, name, MISSING)

        def read() -> Any:
            held = getter()
            if not isinstance(held, np.ndarray):
                self.captures.watch(getter, held)
            return self.value(held, f"{cls.__name__}.{name}", getter)

        return Attribute(read)

    def _member(self, member: Any) -> Any:
        if isinstance(member, types.FunctionType):
            file = member.__code__.co_filename
            return None if file == "<string>" or _is_library(file) else self.function(member)
        if isinstance(member, staticmethod | classmethod) and isinstance(member.__func__, types.FunctionType):
            return type(member)(self.function(member.__func__))
        if isinstance(member, property):
            parts: list[Any] = [f and self.function(f) for f in (member.fget, member.fset, member.fdel)]  # type: ignore[arg-type]
            return property(parts[0], parts[1], parts[2])
        return None

    # --- containers and objects -------------------------------------------------------------------------

    def _container(self, value: Any, name: str, getter: Getter) -> Any:
        """A copy with substituted items; a change of the copy is a side effect."""
        if isinstance(value, set | frozenset):
            return type(value)(value)
        if isinstance(value, dict):
            made: Any = {k: self.value(v, f"{name}[{k!r}]", item(getter, k)) for k, v in value.items()}
            if type(value) is not dict:
                raise UnsupportedOperationError(
                    f"the captured {type(value).__name__} {name!r} cannot be compiled", user_origin()
                )
            before = [*made.items()]
            self._copies.append((name, lambda: [*made.items()], lambda: before))
            return made
        items = [self.value(v, f"{name}[{k}]", item(getter, k)) for k, v in enumerate(value)]
        if isinstance(value, tuple):
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if type(value) is not list:
            raise UnsupportedOperationError(
                f"the captured {type(value).__name__} {name!r} cannot be compiled", user_origin()
            )
        given = list(items)
        self._copies.append((name, lambda: items, lambda: given))
        return items

    def _instance(self, value: Any, name: str) -> Any:
        """A copy of a user's object whose attributes are read, and watched, one by one."""
        cls = type(value)
        own = getattr(value, "__dict__", None)
        if own is None or type(cls) is not type or hasattr(cls, "__getattr__") or host.draws_numbers(value):
            raise UnsupportedOperationError(
                f"{name!r} of type {cls.__module__}.{cls.__name__} cannot be compiled", user_origin(),
                "pass what is needed of it as arguments",
            )  # fmt: skip
        read: dict[str, Any] = {}

        def get(copy: object, attribute: str) -> Any:
            if attribute not in own:
                raise AttributeError(f"{cls.__name__!r} object has no attribute {attribute!r}")
            getter = functools.partial(own.get, attribute, MISSING)
            if not isinstance(own[attribute], np.ndarray):
                self.captures.watch(getter, own[attribute])
            read[attribute] = self.value(own[attribute], f"{name}.{attribute}", getter)
            made.__dict__[attribute] = read[attribute]
            return read[attribute]

        rebound = self.value(cls, cls.__name__, always(cls))
        watched = type(cls.__name__, (rebound,), {"__getattr__": get, "__module__": cls.__module__})
        self.originals[watched] = cls
        native: Any = next(base for base in cls.__mro__ if not base.__flags__ & _HEAP_TYPE)
        made: Any = native.__new__(watched)
        for attribute in own:
            if hasattr(cls, attribute):
                get(made, attribute)
        self._copies.append((name, lambda: [*vars(made).items()], lambda: [*read.items()]))
        return made

    # --- after the trace ----------------------------------------------------------------------------

    def check_unchanged(self) -> None:
        """Raise SideEffectError when the function changed something outside that it had read."""
        for name, now, before in self._copies:
            if not _identical(now(), before()):
                raise SideEffectError(
                    f"{name!r}, which lives outside the function, is changed inside it", None,
                    "return the value instead; a traced value must not escape",
                )  # fmt: skip


def _identical(a: list[Any], b: list[Any]) -> bool:
    def same(x: Any, y: Any) -> bool:
        return x is y or (type(x) is tuple and type(y) is tuple and len(x) == len(y) and all(map(same, x, y)))

    return len(a) == len(b) and all(map(same, a, b))


class GlobalsView(dict):
    """Globals of a rebound function: CPython asks a dict subclass through its ``__getitem__``."""

    def __init__(self, rebinder: Rebinder, namespace: dict[str, Any]) -> None:
        super().__init__(
            __builtins__={**vars(builtins), "__import__": self._import}, __name__=namespace.get("__name__")
        )
        self._rebinder, self._namespace = rebinder, namespace
        self._seen: dict[str, Any] = {CONTROL: rebinder.control}

    def __getitem__(self, name: str) -> Any:
        if name in self._seen:
            return self._seen[name]
        value = self._namespace.get(name, MISSING)
        getter = functools.partial(self._namespace.get, name, MISSING)
        if not isinstance(value, np.ndarray):
            self._rebinder.captures.watch(getter, value)
        if value is not MISSING:
            seen = self._rebinder.value(value, name, getter)
        elif hasattr(builtins, name):
            seen = python_names.builtin(self._rebinder.rec, name)
        else:
            raise KeyError(name)
        self._seen[name] = seen
        return seen

    def _import(self, name: str, *args: Any) -> Any:
        module = builtins.__import__(name, self._namespace, *args[1:])
        return self._rebinder.value(module, name, always(module))


class ModuleView:
    """A module whose attributes are rebound as they are read."""

    def __init__(self, rebinder: Rebinder, module: types.ModuleType) -> None:
        vars(self).update(_rebinder=rebinder, _module=module, __name__=module.__name__)

    def __getattr__(self, name: str) -> Any:
        rebinder, module = self._rebinder, self._module
        made = substitutes.numpy_object(rebinder.rec, name) if module is np else None
        if made is None:
            value = getattr(module, name)
            library = _root(module.__name__) in _LIBRARIES or module is math
            getter = functools.partial(getattr, module, name, MISSING)
            if not library and not isinstance(value, np.ndarray):
                rebinder.captures.watch(getter, value)
            made = rebinder.value(value, name, getter)
        vars(self)[name] = made
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise SideEffectError(f"{self._module.__name__}.{name} is assigned inside a traced function", user_origin())


def _is_impure(module: str) -> bool:
    root = _root(module)
    return root in sys.stdlib_module_names and root not in _PURE


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_library(file: str) -> bool:
    """A file of the standard library, NumPy, SciPy or numstax, whose functions run as they are."""
    if file.startswith(("<frozen", _PACKAGE)):
        return file != _FORMS
    if "site-packages" in file or "dist-packages" in file:
        return any(f"-packages/{name}/" in file for name in (*_LIBRARIES, "numba", "ml_dtypes"))
    return file.startswith(_STDLIB)


_STORES = {dis.opmap[n] for n in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")}


def _check_code(code: types.CodeType, outer: frozenset[str] | None = None) -> None:
    """Refuse code that assigns a global, or a variable of the function around it."""
    names = frozenset(code.co_freevars) if outer is None else outer
    if _STORES & set(code.co_code[::2]):
        for step in dis.get_instructions(code):
            is_global = step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
            if is_global or (step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in names):
                kind = "global" if is_global else "captured variable"
                raise SideEffectError(
                    f"the {kind} {step.argval!r} is assigned in {code.co_name}", None,
                    "return the value instead",
                )  # fmt: skip
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            _check_code(inner, frozenset(n for n in inner.co_freevars if n in names and n not in code.co_cellvars))
