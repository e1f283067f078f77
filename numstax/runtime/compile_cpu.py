"""Program text to native object code, through Numba: the only file that imports it.

A `Program` for the target 'cpu' enters; `ObjectCode` (relocatable, for this machine, with the symbol of its
entry and the library functions it calls) leaves.  The entry has the C signature
``int32 f(void *ret, void *exc, args...)`` with one argument for each Param, in order: a pointer, or the scalar
by value (a half float or bool as its storage integer, a complex number as two floats).  It returns 0.  `ret`
and `exc` point to a scratch word.

What program text may name besides builtins and `math`:

  int8 .. uint64, float32, float64, complex64, complex128, boolean    typed conversions
  scratch_<dtype>(scratch, byte_offset)    pointer into the scratch memory, to that dtype's storage type
  offset_<dtype>(pointer, elements)        pointer moved by a number of elements
  prefetch_<dtype>(pointer, element, n)    asks for n elements from that one on, which need not exist, to come near
  transpose_<dtype>(to, to_pitch, source, source_pitch)
                                           to[i*to_pitch + j] = source[j*source_pitch + i] for i, j < n, where n is
                                           16, or 8 for elements of 8 bytes (dtypes of at most 8 bytes)
  min(a, b), max(a, b)                     of int64 (compiled at once, where Numba's are functions to be compiled)
  products_<dtype>_<rows>x<columns>(sums, left, right, steps), add_products_..
                                           outer products in registers (see `outer_products`)
  rolled(n)                                n, of which the optimiser knows only which power of two divides it: a loop
                                           over a range that ends there is not written out for every step
  run_<name>(calls, arguments..), share_<name>(calls, team, tasks, grain, arguments..)
                                           for the programs in `program.calls`: run all of it here, or share it out;
                                           what those call is found in `calls`
  the names in `program.intrinsics`        scalar functions given as data, expanded at each call

Compiling holds Numba's process-wide lock, so any thread may call; a fork waits for a compile in progress
and the child can compile.  Equal programs give the same symbol; it tells unequal ones apart.
"""
# Numba is only partly annotated.
# mypy: disable-error-code="no-untyped-call,no-any-return"

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from llvmlite.binding import ffi
from numba.core import cgutils, optional, types  # noqa: F401  (importing registers implementations)
from numba.core import ir as numba_ir
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase, Flags, compile_extra
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.errors import NumbaError
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import (
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.typing.templates import Signature
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode
from numba.cpython import builtins, cmathimpl, mathimpl, numbers, rangeobj, slicing, tupleobj  # noqa: F401
from numba.extending import intrinsic as numba_intrinsic

from numstax import dtypes
from numstax.errors import CompileError
from numstax.program import Callee, Intrinsic, Param, Program
from numstax.runtime.expand import TYPED_NAMES, Codegen, compile_error, expand, expanding
from numstax.runtime.load import ObjectCode, part_symbol
from numstax.runtime.outer_products import CALLS, outer_products

# A fork waits for compiles in progress: the child would inherit their locks, held for ever.  Numba's lock is
# the outer one; a dying thread frees LLVM objects under llvmlite's lock alone.
for _lock in (ffi.lib._lock, global_compiler_lock):
    os.register_at_fork(
        before=_lock.__enter__,
        after_in_parent=partial(_lock.__exit__, None, None, None),
        after_in_child=partial(_lock.__exit__, None, None, None),
    )


def compile_program(program: Program) -> ObjectCode:
    """Compile for the host processor.  Raises CompileError, which shows the line that does not compile."""
    with global_compiler_lock:
        module, machine, symbol = _module(program)
        if any(p.kind == "lo" for p in program.params):
            module.link_in(llvm.parse_assembly(_part(program, symbol, module.get_function(symbol))))
        called = (f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
        return ObjectCode(machine.emit_object(module), symbol, tuple(called))


def disassemble(program: Program) -> str:
    """The assembly text of a program, for looking at."""
    with global_compiler_lock:
        module, machine, _ = _module(program)
        return str(machine.emit_assembly(module))


# --- Numba ----------------------------------------------------------------------------------------


def _module(program: Program) -> tuple[llvm.ModuleRef, llvm.TargetMachine, str]:
    """The optimised LLVM module, its target machine, and the entry's symbol."""
    namespace: dict[str, Any] = {"__name__": program.name, "math": math, **_TYPED_NAMES, **_pointer_helpers()}
    namespace |= {i.name: _bind(i) for i in program.intrinsics}
    namespace |= {name: _products(name, *parts) for name, *parts in set(CALLS.findall(program.text))}
    for k, called in enumerate(program.calls):
        namespace |= {f"run_{called.name}": _running(k, called), f"share_{called.name}": _sharing(k, called)}
    try:
        exec(compile(program.text, f"<{program.name}>", "exec"), namespace)
    except SyntaxError as error:
        raise compile_error(program, str(error), error.lineno) from error
    flags: Any = Flags()
    flags.error_model = "numpy"
    flags.noalias = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.no_compile = True  # for this process: `compile_program` emits the code
    signature = tuple(_numba_type(p) for p in program.params)
    try:
        typing = cpu_target.typing_context
        with _numbers_only(cpu_target.target_context) as target, _asked_once(typing):
            typing.refresh()
            target.refresh()

            def run(front: type[_Front]) -> tuple[_Library, Any]:
                library = _Library(target.codegen(), program.name)
                entry = namespace[program.entry]
                return library, compile_extra(typing, target, entry, signature, types.void, flags, {}, library, front)

            try:
                library, compiled = run(_QuickFront)
            except (_TypeChangesError, NumbaError):
                library, compiled = run(_FullFront)
            library.finalize()
    except NumbaError as error:
        raise compile_error(program, str(error), getattr(getattr(error, "loc", None), "line", None)) from error
    module = library._final_module
    foreign = [f.name for f in module.functions if f.is_declaration and f.name.startswith(("numba_", "NRT_"))]
    if foreign:
        raise compile_error(program, f"it needs the Numba run time: {', '.join(foreign)}")
    symbol = f"{program.name}_{hashlib.sha256(repr(program).encode()).hexdigest()[:16]}"
    module.get_function(compiled.fndesc.llvm_func_name).name = symbol
    return module, library._codegen._tm, symbol


def _part(program: Program, symbol: str, entry: llvm.ValueRef) -> str:
    """The entry for worker threads, as LLVM's text: it takes the arguments from memory (see `load.part_symbol`)."""
    _, _, *kinds = types = [str(argument.type) for argument in entry.arguments]
    names = [
        {"lo": "%lo", "hi": "%hi", "scratch": "%scratch"}.get(p.kind, "")
        for p in program.params
        for _ in range(2 if p.kind == "scalar" and dtypes.kind(p.dtype) == "c" else 1)
    ]
    lines, word = [], 0
    for k, (name, kind) in enumerate(zip(names, kinds, strict=True)):
        if name:
            continue
        names[k] = f"%v{k}"
        lines.append(f"%at{k} = getelementptr i64, ptr %words, i64 {word}")
        word += 1
        wide, narrow = ("double", "fptrunc") if kind == "float" else ("i64", "trunc")
        if kind in ("ptr", "i64", "double"):
            lines.append(f"%v{k} = load {kind}, ptr %at{k}")
        else:
            lines.append(f"%w{k} = load {wide}, ptr %at{k}")
            lines.append(f"%v{k} = {narrow} {wide} %w{k} to {kind}")
    passed = ", ".join(f"{kind} {name}" for kind, name in zip(kinds, names, strict=True))
    return f"""
declare i32 @"{symbol}"({", ".join(types)})
define void @"{part_symbol(symbol)}"(ptr %words, i64 %lo, i64 %hi, ptr %scratch) {{
  %returned = alloca [8 x i64]
  {chr(10).join(lines)}
  %code = call i32 @"{symbol}"(ptr %returned, ptr %returned, {passed})
  ret void
}}
"""


class _Library(CPUCodeLibrary):
    """Links and optimises; the process's own execution engine does not get to see the module."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _Front(CompilerBase):
    """Numba's passes that programs need; the others, for closures, arrays and constants, take a tenth of the time."""

    steps: tuple[type, ...]

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("program")
        for step in (
            *(TranslateByteCode, FixupArgs, *self.steps),
            *(PreLowerStripPhis, AnnotateTypes, NativeLowering, NoPythonBackend),
        ):
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class _TypeChangesError(Exception):
    """A name is assigned values of several types."""


@register_pass(mutates_CFG=False, analysis_only=True)
class _NamesKeepTypes(FunctionPass):
    """Raises _TypeChangesError."""

    _name = "names_keep_types"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        assigned = [a for block in state.func_ir.blocks.values() for a in block.find_insts(numba_ir.Assign)]
        times = Counter(a.target.name for a in assigned)
        if any(
            times[a.target.name] > 1 and _type_of(a.value, state) != types.unliteral(state.typemap[a.target.name])
            for a in assigned
        ):
            raise _TypeChangesError
        return False


def _type_of(value: Any, state: Any) -> types.Type | None:
    """The type of what is assigned, where that is known."""
    if isinstance(value, numba_ir.Var):
        found = state.typemap[value.name]
    elif isinstance(value, numba_ir.Const):
        found = state.typingctx.resolve_value_type(value.value)
    else:
        found = getattr(state.calltypes.get(value), "return_type", None)
    return found and types.unliteral(found)


class _QuickFront(_Front):
    """Without the pass that gives each assignment a name of its own, which takes up to a third of the time; raises
    _TypeChangesError where it is needed."""

    steps = (IRProcessing, NopythonTypeInference, _NamesKeepTypes)


class _FullFront(_Front):
    steps = (IRProcessing, ReconstructSSA, NopythonTypeInference)


@contextmanager
def _numbers_only(target: Any) -> Iterator[Any]:
    """Numba's target without strings, containers, arrays and linear algebra: loading those takes longer than
    compiling a kernel, and none calls them.  What the user compiles with Numba afterwards loads them."""

    def load() -> None:
        rtsys.initialize(target)
        target.install_registry(mathimpl.registry)
        target.install_registry(cmathimpl.registry)

    target.load_additional_registries = load
    try:
        yield target
    finally:
        del target.load_additional_registries


@contextmanager
def _asked_once(typing: Any) -> Iterator[None]:
    """Numba looks up the types of every call twice and more, though the operators and types are few."""
    look_up, known = typing.resolve_function_type, {}

    def resolve(function: types.Type, args: tuple[types.Type, ...], kws: Any) -> Signature | None:
        key = (function, args, *dict(kws).items())
        if key not in known:
            known[key] = look_up(function, args, kws)
        return known[key]

    typing.resolve_function_type = resolve
    try:
        yield
    finally:
        del typing.resolve_function_type


def _numba_type(param: Param) -> types.Type:
    match param.kind:
        case "pointer":
            return types.CPointer(_storage(param.dtype))
        case "scalar":
            return _storage(param.dtype)
        case "scratch":
            return types.CPointer(types.uint8)
        case "status" | "calls" | "team":
            return types.CPointer(types.int64)
        case "size" | "lo" | "hi":
            return types.int64
    raise CompileError(f"parameter '{param.name}' is of unknown kind '{param.kind}'")


def _storage(dtype: np.dtype | None) -> types.Type:
    assert dtype is not None
    return numba.from_dtype(dtypes.storage(dtype))


_TYPED_NAMES = {name: getattr(types, name) for name in TYPED_NAMES}


# --- what program text can call -------------------------------------------------------------------


def _expanding(name: str, result: types.Type, arguments: tuple[types.Type, ...], codegen: Codegen) -> object:
    """A function for Numba code that `codegen` expands at each call."""
    return numba_intrinsic(expanding(name, result(*arguments), len(arguments), codegen))


_WORDS = 3
"""In the table for each program (see `load.load`)."""
_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()


def _running(position: int, program: Callee) -> object:
    """Calls the entry of the program at this position of the table."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
        calls, *passed = args
        values = iter(passed)
        arguments = [_table(builder, calls, position) if p.kind == "calls" else next(values) for p in program.params]
        returned = builder.bitcast(cgutils.alloca_once(builder, _WORD, 8), _BYTES)
        kinds = [_BYTES, _BYTES, *(a.type for a in arguments)]
        entry = _function(builder, calls, _WORDS * position, ir.FunctionType(ir.IntType(32), kinds))
        builder.call(entry, [returned, returned, *arguments])
        return context.get_dummy_value()

    parameters = (types.CPointer(types.int64), *(_numba_type(p) for p in program.params if p.kind != "calls"))
    return _expanding(f"run_{program.name}", types.void, parameters, codegen)


def _sharing(position: int, program: Callee) -> object:
    """Hands the part of the program at this position of the table to the team, its arguments in memory."""
    needed = [p for p in program.params if p.kind not in ("lo", "hi", "scratch")]
    passed = [_numba_type(p) for p in needed if p.kind != "calls"]

    def codegen(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
        calls, team, tasks, grain, *rest = args
        values = iter(rest)
        arguments = [_table(builder, calls, position) if p.kind == "calls" else next(values) for p in needed]
        words = cgutils.alloca_once(builder, _WORD, len(arguments) or 1)
        for k, argument in enumerate(arguments):
            word = argument if argument.type == _WORD else builder.ptrtoint(argument, _WORD)
            builder.store(word, builder.gep(words, [ir.Constant(_WORD, k)]))
        part = builder.load(builder.gep(calls, [ir.Constant(_WORD, _WORDS * position + 1)]))
        kinds = [team.type, _WORD, words.type, _WORD, _WORD]
        share = _function(builder, team, 0, ir.FunctionType(ir.VoidType(), kinds))
        builder.call(share, [team, part, words, tasks, grain])
        return context.get_dummy_value()

    word = types.CPointer(types.int64)
    return _expanding(f"share_{program.name}", types.void, (word, word, types.int64, types.int64, *passed), codegen)


def _table(builder: ir.IRBuilder, calls: ir.Value, position: int) -> ir.Value:
    """The table of the program at this position."""
    address = builder.load(builder.gep(calls, [ir.Constant(_WORD, _WORDS * position + 2)]))
    return builder.inttoptr(address, calls.type)


def _function(builder: ir.IRBuilder, table: ir.Value, position: int, kind: ir.FunctionType) -> ir.Value:
    """The function whose address is in a table."""
    address = builder.load(builder.gep(table, [ir.Constant(_WORD, position)]))
    return builder.inttoptr(address, kind.as_pointer())


@cache
def _pointer_helpers() -> dict[str, object]:
    def move(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
        pointer = builder.gep(args[0], [args[1]], inbounds=True)
        return builder.bitcast(pointer, context.get_value_type(signature.return_type))

    helpers: dict[str, object] = {"rolled": _expanding("rolled", types.int64, (types.int64,), _hide)}
    helpers["words_at"] = _expanding("words_at", types.CPointer(types.uint64), (types.int64,), _pointer)
    for name, sign in (("min", "<"), ("max", ">")):
        helpers[name] = _expanding(name, types.int64, (types.int64, types.int64), partial(_chosen, sign))
    for dtype in dtypes.SUPPORTED:
        pointer = types.CPointer(_storage(dtype))
        for prefix, base in (("scratch", types.CPointer(types.uint8)), ("offset", pointer)):
            name = f"{prefix}_{dtypes.name(dtype)}"
            helpers[name] = _expanding(name, pointer, (base, types.int64), move)
        name = f"prefetch_{dtypes.name(dtype)}"
        helpers[name] = _expanding(name, types.void, (pointer, types.int64, types.int64), _prefetch)
        if dtype.itemsize <= 8:
            name = f"transpose_{dtypes.name(dtype)}"
            parameters = (pointer, types.int64) * 2
            helpers[name] = _expanding(name, types.void, parameters, partial(_transpose, dtype.itemsize))
    return helpers


@cache
def _products(name: str, adds: str, dtype: str, rows: str, columns: str) -> object:
    pointer = types.CPointer(_storage(dtypes.by_name(dtype)))
    codegen = outer_products(bool(adds), int(rows), int(columns))
    return _expanding(name, types.void, (*(pointer,) * 3, types.int64), codegen)


def _hide(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
    (n,) = args
    hidden = builder.asm(ir.FunctionType(n.type, [n.type]), "", "=r,0", args, side_effect=False)
    return builder.and_(hidden, builder.neg(builder.and_(n, builder.neg(n))))


def _pointer(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
    """To what is at an address."""
    return builder.inttoptr(args[0], context.get_value_type(signature.return_type))


def _chosen(
    sign: str, context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
) -> ir.Value:
    a, b = args
    return builder.select(builder.icmp_signed(sign, a, b), a, b)


_LINE = 64


def _prefetch(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
    """One request for each line, to the second-level cache."""
    pointer, element, count = args
    itemsize = context.get_abi_sizeof(pointer.type.pointee)
    hints = [ir.Constant(ir.IntType(32), k) for k in (0, 2, 1)]  # to be read, not at once, data
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, *(hint.type for hint in hints)])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", (_BYTES,), kind)
    step = ir.Constant(count.type, max(_LINE // itemsize, 1))
    with cgutils.for_range_slice(builder, ir.Constant(count.type, 0), count, step) as (k, _):
        at = builder.gep(pointer, [builder.add(element, k)])
        builder.call(prefetch, [builder.bitcast(at, _BYTES), *hints])
    return context.get_dummy_value()


def _transpose(
    itemsize: int, context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]
) -> ir.Value:
    """A square of vector registers: at each step, swap the off-diagonal halves of ever smaller squares."""
    to, to_pitch, source, source_pitch = args
    n = min(16, 64 // itemsize)
    vector = ir.VectorType(ir.IntType(8 * itemsize), n)

    def row(pointer: ir.Value, pitch: ir.Value, k: int) -> ir.Value:
        at = builder.gep(pointer, [builder.mul(pitch, ir.Constant(pitch.type, k))], inbounds=True)
        return builder.bitcast(at, vector.as_pointer())

    rows = [builder.load(row(source, source_pitch, k), align=itemsize) for k in range(n)]
    half = n // 2
    while half:
        low, high = (
            ir.Constant(ir.VectorType(ir.IntType(32), n), [k + (n - half if k & half else 0) for k in range(n)]),
            ir.Constant(ir.VectorType(ir.IntType(32), n), [k + (n if k & half else half) for k in range(n)]),
        )
        for k in range(n):
            if not k & half:
                a, b = rows[k], rows[k + half]
                rows[k], rows[k + half] = (builder.shuffle_vector(a, b, mask) for mask in (low, high))
        half //= 2
    for k, value in enumerate(rows):
        builder.store(value, row(to, to_pitch, k), align=itemsize)
    return context.get_dummy_value()


@cache
def _bind(intrinsic: Intrinsic) -> object:
    def codegen(context: Any, builder: ir.IRBuilder, signature: Signature, args: tuple[ir.Value, ...]) -> ir.Value:
        return expand(builder, intrinsic, args)

    arguments = tuple(_register_type(p) for p in intrinsic.params)
    return _expanding(intrinsic.name, _register_type(intrinsic.result), arguments, codegen)


def _register_type(name: str) -> types.Type:
    return types.boolean if name == "b1" else numba.from_dtype(dtypes.by_name(name))
