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
import itertools
import math
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numstax import dtypes
from numstax.errors import SideEffectError, UnsupportedOperationError
from numstax.trace import classes, draws, generators, python_names, substitutes
from numstax.trace.array import TracedArray
from numstax.trace.captures import MISSING, Captures, Getter, always, can_change, item
from numstax.trace.control import Control
from numstax.trace.library import LibraryObject, library_function
from numstax.trace.mirrors import Mirrors, check_plain
from numstax.trace.origin import user_origin
from numstax.trace.owners import LIBRARIES, is_heap_type, is_impure, is_library, root
from numstax.trace.source import CONTROL, rewrite

if TYPE_CHECKING:
    from numstax.trace.recorder import Recorder

_SMALL = 1024
"""Captured arrays of at most so many elements may be taken for constants."""
AS_THEY_ARE = (
    bool, int, float, complex, str, bytes, np.generic, np.dtype, type(None), type(Ellipsis), type(NotImplemented),
    slice, range, enum.Enum, TracedArray, np.ufunc, types.MethodDescriptorType, types.WrapperDescriptorType,
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
        """What the function was given in place of outside containers: name, items now, items as they should be."""
        self._given: dict[types.FunctionType, dict[str, Any]] = {}
        """The attributes of copies of functions."""
        self.mirrors = Mirrors(self)
        rec.stand_ins[OutsideSet] = set

    # --- values -----------------------------------------------------------------------------------

    def value(self, value: Any, name: str, getter: Getter) -> Any:
        """What traced code sees for an object from outside; `getter` reads the object again."""
        if isinstance(value, AS_THEY_ARE):
            check_plain(value)
            return value
        found = self._memo.get(id(value))
        if found is None:
            substitute = self._substitute(value, name, getter)
            found = self._memo.setdefault(id(value), (value, substitute))
        return found[1]

    def called(self, function: Any) -> Any:
        """What is called in place of the function that is traced."""
        if isinstance(function, types.FunctionType) and not is_library(function.__code__.co_filename):
            return self.function(function)
        return self.value(function, getattr(function, "__name__", "function"), always(function))

    def originals(self) -> Callable[[Any], Any]:
        """A function that gives what a value stands for: something from outside, or itself."""
        sources = {id(OutsideSet): set, **{id(substitute): value for value, substitute in self._memo.values()}}
        return lambda value: value.original if type(value) is classes.StandIn else sources.get(id(value), value)

    def fixed(self, value: Any, name: str) -> Any:
        """What traced code sees for something that a watched object refers to for good."""
        if can_change(value) and not isinstance(value, np.ndarray):
            self.captures.watch(always(value), value)
        return self.value(value, name, always(value))

    def copied(self, name: str, now: Callable[[], list[Any]], wanted: Callable[[], list[Any]] | None = None) -> None:
        """A copy of something outside was handed out; `now` lists what it holds, `wanted` (or `now` at present) what
        it must hold when the function has run."""
        before = [*now()]
        self._copies.append((name, now, wanted or (lambda: before)))

    def _substitute(self, value: Any, name: str, getter: Getter) -> Any:
        if isinstance(value, np.ndarray):
            return self._array(value, name, getter)
        if draws.is_generator(value):
            handle = generators.caller_generator(self.rec, value, name)
            self.captures.getters[len(self.rec.inputs) - 1] = lambda: draws.Ticket(getter())
            self.captures.watch_result(draws.form, getter, value)
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
            return types.MethodType(self.fixed(value.__func__, name), self.fixed(value.__self__, name))
        if isinstance(value, functools.partial):
            function, *parts = (self.fixed(v, name) for v in (value.func, *value.args))
            return functools.partial(function, *parts, **self.fixed(value.keywords, name))
        if type(value).__module__.startswith("numstax.") and isinstance(
            getattr(value, "__wrapped__", None), types.FunctionType
        ):
            copy = self.function(value.__wrapped__)
            self.captures.watch_length(vars(value))
            self._give_attributes(vars(value), value.attributes(), copy)
            return copy
        if (getattr(value, "__module__", None) or "").startswith("numpy.random") and callable(value):
            return getattr(substitutes.numpy_object(self.rec, "random"), value.__name__)
        if isinstance(value, types.BuiltinFunctionType):
            return self._builtin_function(value)
        if isinstance(value, list | tuple | dict | set | frozenset):
            return self._container(value, name, getter)
        if root(type(value).__module__) in LIBRARIES:
            if substitutes.needs_stand_in(value):
                return substitutes.numpy_function(self.rec, value)
            if root(type(value).__module__) == "numpy" and callable(value) and not is_heap_type(type(value)):
                return value
            if root(type(value).__module__) == "scipy":
                return LibraryObject(self.rec, value)
        if type(value).__module__ == "uarray":
            return library_function(self.rec, value)
        if type(value).__module__ in ("functools", "typing"):
            return value
        return self.mirrors.copy_of_object(value, name)

    def _array(self, value: np.ndarray, name: str, getter: Getter) -> TracedArray:
        if type(value) not in (np.ndarray, np.memmap):
            raise UnsupportedOperationError(
                f"the captured {type(value).__name__} {name!r} cannot be compiled", user_origin()
            )
        if not dtypes.is_supported(value.dtype.newbyteorder("=")):
            raise UnsupportedOperationError(
                f"the captured array {name!r} has dtype {value.dtype}, which cannot be compiled", user_origin()
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
        if python_names.is_builtin(function):
            return python_names.builtin(self.rec, function.__name__)
        if python_names.is_math(function):
            return python_names.math_function(self.rec, function.__name__)
        if substitutes.needs_stand_in(function):
            return substitutes.numpy_function(self.rec, function)
        holder = function.__self__
        module = (holder.__module__ if isinstance(holder, type) else function.__module__) or ""
        is_free = holder is None or isinstance(holder, types.ModuleType | type)
        if not is_free or is_impure(module) or module == "sys":
            raise SideEffectError(f"{function.__qualname__}() inside a traced function", user_origin())
        return function

    def _function_value(self, function: types.FunctionType) -> Any:
        package = root(function.__module__ or "")
        if package in ("numpy", "numstax") and substitutes.needs_stand_in(function):
            return substitutes.numpy_function(self.rec, function)
        if package in LIBRARIES:
            return library_function(self.rec, function)
        if not is_library(function.__code__.co_filename):
            self.captures.watch_length(vars(function))
            return self.function(function)
        if is_impure(package):
            raise SideEffectError(f"{function.__module__}.{function.__name__} inside a traced function", user_origin())
        return function

    def function(self, function: types.FunctionType) -> types.FunctionType:
        """The copy of a user's function that reads through a view of its globals."""
        found = self._memo.get(id(function))
        if found is not None:
            return found[1]
        _check_code(function.__code__)
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        code = rewrite(function)
        if code is None:
            code = function.__code__
            _check_handlers(code)
        copy = types.FunctionType(code, self._view(function.__globals__), function.__name__, None, cells)
        self._memo[id(function)] = (function, copy)
        names = function.__code__.co_freevars
        for name, old, new in zip(names, function.__closure__ or (), cells, strict=True):
            try:
                held = old.cell_contents
            except ValueError:
                continue
            getter = functools.partial(_held, old)
            if not isinstance(held, np.ndarray):
                self.captures.watch(getter, held)
            new.cell_contents = self.value(held, name, getter)
        # defaults that come into being are those of parameters that a call like this one gives
        given = [name for name in ("__defaults__", "__kwdefaults__") if getattr(function, name)]
        self.captures.watch_attributes(function, "__code__", *given)
        defaults = function.__defaults__ or ()
        positional = function.__code__.co_varnames[: function.__code__.co_argcount]
        named = zip(positional[len(positional) - len(defaults) :], defaults, strict=True)
        copy.__defaults__ = tuple(self.fixed(v, name) for name, v in named) or None
        words = function.__kwdefaults__ or {}
        if words:
            self.captures.watch(always(words), words)
        copy.__kwdefaults__ = {k: self.value(v, k, always(v)) for k, v in words.items()} or None
        self._give_attributes(vars(function), vars(function), copy)
        return copy

    def _give_attributes(self, namespace: dict[str, Any], names: Iterable[str], copy: types.FunctionType) -> None:
        """Attributes that the user has set on a function."""
        for name in names:
            if name != "__wrapped__":
                held, getter = namespace[name], functools.partial(namespace.get, name, MISSING)
                if not isinstance(held, np.ndarray):
                    self.captures.watch(getter, held)
                setattr(copy, name, self.value(held, f"{copy.__name__}.{name}", getter))
        given = self._given.setdefault(copy, {})
        given.update(vars(copy))
        self.copied(copy.__name__, lambda: [*vars(copy).items()], lambda: [*given.items()])

    def _view(self, namespace: dict[str, Any]) -> GlobalsView:
        found = self._views.get(id(namespace))
        if found is None:
            found = self._views[id(namespace)] = GlobalsView(self, namespace)
        return found

    # --- modules and classes --------------------------------------------------------------------------

    def _module(self, module: types.ModuleType) -> Any:
        if is_impure(module.__name__):
            return substitutes.Refused(module.__name__)
        if module.__name__.startswith("numpy.random"):
            return substitutes.numpy_object(self.rec, "random")
        return ModuleView(self, module)

    def _type(self, cls: type) -> type:
        if cls in substitutes.SCALAR_TYPES:
            return substitutes.scalar_type(self.rec, cls)
        if is_impure(cls.__module__) and not issubclass(cls, BaseException):
            raise SideEffectError(f"{cls.__module__}.{cls.__name__} inside a traced function", user_origin())
        stand_in = classes.numpy_class(self.rec, cls)
        return self.mirrors.copy_of_class(cls) if stand_in is None else stand_in

    # --- containers and objects -------------------------------------------------------------------------

    def _container(self, value: Any, name: str, getter: Getter) -> Any:
        """A copy with substituted items; a change of the copy is a side effect."""
        kind = type(value)
        if hasattr(value, "_fields"):
            kind = self.fixed(kind, kind.__name__)
        elif kind not in (list, tuple, dict, set, frozenset):
            raise UnsupportedOperationError(f"the captured {kind.__name__} {name!r} cannot be compiled", user_origin())
        if isinstance(value, dict):
            made: Any = {
                self.fixed(k, f"a key of {name}"): self.value(v, f"{name}[{k!r}]", item(getter, k))
                for k, v in value.items()
            }
            self.copied(name, lambda: [*made.items()])
            return made
        if isinstance(value, set | frozenset):
            return self._set(value, name)
        items = [self.value(v, f"{name}[{k}]", item(getter, k)) for k, v in enumerate(value)]
        if isinstance(value, tuple):
            return kind(*items) if hasattr(value, "_fields") else tuple(items)
        self.copied(name, lambda: items)
        return items

    def _set(self, value: Any, name: str) -> Any:
        items = [self.fixed(v, f"an item of {name}") for v in value]
        if isinstance(value, frozenset):
            if all(map(operator.is_, items, value)):
                return value
            raise UnsupportedOperationError(f"the items of the captured frozenset {name!r} cannot be compiled")
        made = OutsideSet(items)
        self.copied(name, lambda: [made.popped, *sorted(set.__iter__(made), key=id)])
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


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _identical(a: list[Any], b: list[Any]) -> bool:
    def same(x: Any, y: Any) -> bool:
        return x is y or (type(x) is tuple and type(y) is tuple and len(x) == len(y) and all(map(same, x, y)))

    return len(a) == len(b) and all(map(same, a, b))


class OutsideSet(set):
    """A copy of a set from outside, which goes through its items in the order of the original."""

    # sets that others are made of get these
    _order: Sequence[Any] = ()
    popped = False

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self._order = items

    def __iter__(self) -> Iterator[Any]:
        is_as_given = len(self) == len(self._order) and all(v in self for v in self._order)
        return iter(self._order) if is_as_given else super().__iter__()

    def pop(self) -> Any:
        """Which item goes depends on more than what the set holds: it counts as changed even if the item comes back."""
        self.popped = True
        return super().pop()


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
            value = getattr(module, name, MISSING)
            library = root(module.__name__) in LIBRARIES or module is math
            getter = functools.partial(getattr, module, name, MISSING)
            if not library and not isinstance(value, np.ndarray):
                rebinder.captures.watch(getter, value)
            if value is MISSING:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            made = rebinder.value(value, name, getter)
        vars(self)[name] = made
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise SideEffectError(f"{self._module.__name__}.{name} is assigned inside a traced function", user_origin())


_STORES = {dis.opmap[n] for n in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")}


def _check_handlers(code: types.CodeType) -> None:
    """Refuse code that may catch what only tracing raises, and was not rewritten so that this is noticed."""
    names = [step.opname for step in dis.get_instructions(code)]
    catches = ("CHECK_EXC_MATCH", "CHECK_EG_MATCH")
    if any(name in catches for name in names) or ("PUSH_EXC_INFO", "POP_TOP") in itertools.pairwise(names):
        raise UnsupportedOperationError(
            f"{code.co_name} catches exceptions, and cannot be rewritten", None, "leave out try, or what has no source"
        )


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
