"""Object code -> callable machine code in this process.

Enters: relocatable object code, as the compiler made it (now or in an earlier process), and the parameters
of its entry.  Leaves: a callable, which keeps the code mapped for as long as it lives.  Every object gets an
execution engine of its own (0.15 ms), since symbols made in different processes may coincide.  Only llvmlite
is needed: cached kernels run without importing Numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from numstax import dtypes
from numstax.errors import CompileError
from numstax.program import Param, Program
from numstax.records import record

Entry = Callable[..., int]

_RETURN_SPACE = ctypes.create_string_buffer(64)
RETURN_SLOTS = (ctypes.addressof(_RETURN_SPACE),) * 2
"""The first two arguments of every entry function: where it may store a result and an exception.  Entries
return nothing and raise nothing, so all threads share one place."""


@record
class ObjectCode:
    """Object code of one Program: `symbol` is its entry; `externals` are functions it expects to find."""

    code: bytes
    symbol: str
    externals: tuple[str, ...] = ()


def load(compiled: ObjectCode, params: tuple[Param, ...], called: Sequence[Entry] = ()) -> Entry:
    """A callable taking RETURN_SLOTS and then the numbers of each parameter; it releases the GIL.  Its attribute
    `part` is the address of the entry for worker threads, 0 where there is none, and `calls` that of a table of the
    programs it calls: entry, part and table of each.

    Raises CompileError when the object cannot be linked in this process.
    """
    words = [word for param in params for word in _c_types(param)]
    types = (ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *words)
    entry = functions(compiled, {compiled.symbol: types})[compiled.symbol]
    entry.part = entry.engine.get_function_address(part_symbol(compiled.symbol))  # type: ignore[attr-defined]
    addresses = [n for c in called for n in (address_in(c), c.part, c.calls)]  # type: ignore[attr-defined]
    table = (ctypes.c_int64 * len(addresses))(*addresses)
    entry.calls = ctypes.addressof(table)  # type: ignore[attr-defined]
    entry.keeps = (table, *called)  # type: ignore[attr-defined]
    return entry


def address_in(entry: Entry) -> int:
    """The address of the code of an entry."""
    return ctypes.cast(entry, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def part_symbol(symbol: str) -> str:
    """The entry of a parallel program for worker threads: ``void f(int64 *words, int64 lo, int64 hi, void *scratch)``.
    The words are the other arguments in order: addresses, sizes and whole numbers as they are, floats as doubles."""
    return f"{symbol}_part"


def functions(compiled: ObjectCode, types: Mapping[str, tuple[Any, ...]]) -> dict[str, Entry]:
    """Callables by symbol; `types` gives result and parameters.  Each keeps the code mapped."""
    llvm = _llvm()
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    # LLVM ends the process on an undefined symbol, so ask first; the first engine makes those of the process known
    missing = [name for name in compiled.externals if not llvm.address_of_symbol(name)]
    if missing:
        raise CompileError(f"compiled code needs functions this process lacks: {', '.join(missing)}")
    try:
        engine.add_object_file(llvm.ObjectFileRef.from_data(compiled.code))
    except RuntimeError as error:
        raise CompileError(f"object code cannot be read: {error}") from error
    engine.finalize_object()
    found: dict[str, Entry] = {}
    for symbol, signature in types.items():
        address = engine.get_function_address(symbol)
        if not address:
            raise CompileError(f"object code has no entry {symbol}")
        function: Any = ctypes.CFUNCTYPE(*signature)(address)
        function.engine = engine
        found[symbol] = function
    return found


def assemble(program: Program) -> ObjectCode:
    """The code of a program written in LLVM's own language."""
    llvm = _llvm()
    module = llvm.parse_assembly(program.text)
    called = (f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
    machine = llvm.Target.from_default_triple().create_target_machine()
    return ObjectCode(machine.emit_object(module), program.entry, tuple(called))


def processor() -> tuple[str, ...]:
    """LLVM's version, and its name and features of this processor."""
    llvm = _llvm()
    return str(llvm.llvm_version_info), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def _llvm() -> Any:
    """LLVM, ready for this machine; imported when the first code is loaded, since that takes 20 ms."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _c_types(param: Param) -> tuple[type, ...]:
    if param.kind != "scalar":
        # sizes too: ctypes converts c_void_p arguments faster than c_int64, and both are one machine word
        return (ctypes.c_void_p,)
    assert param.dtype is not None
    if dtypes.kind(param.dtype) == "c":
        part = np.dtype(f"f{param.dtype.itemsize // 2}")
        return (np.ctypeslib.as_ctypes_type(part),) * 2
    return (np.ctypeslib.as_ctypes_type(dtypes.storage(param.dtype)),)
