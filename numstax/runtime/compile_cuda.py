"""Program text to a cubin, through numba-cuda and nvJitLink: the only file that imports them.

A `Program` for a GPU target (``sm_80``, ``sm_90a``, ...) enters; `Cubin` leaves: machine code for that target,
its symbol, and what it needs.  The route is Python -> LLVM IR -> LTO-IR -> nvJitLink of the same toolkit, which
works without a GPU and with any driver that can load the cubin.  Parameters are raw pointers and integers;
pointers of a kernel do not overlap (`noalias`), as on the CPU.

What program text may name besides builtins and `math`:

  int8 .. uint64, float32, float64, complex64, complex128, boolean    typed conversions
  registers_<dtype>(n)           n elements private to the thread, n a literal; kept in registers where every loop over
                                 them has a literal length
  shared_<dtype>(byte_offset)    pointer into the dynamic shared memory of the block
  offset_<dtype>(pointer, n)     pointer moved by n elements
  load<n>_<dtype>(pointer, offset), store<n>_<dtype>(pointer, offset, values)
                                 n neighbouring elements as a tuple, with one access; offset in elements, aligned to n
  shared_address()               the address of the dynamic shared memory, uint32, as instructions take it
  spread_<tile>(pointer, tile, first)   the registers of a tile (``f32x128``) to as many elements, from `first` on
  unroll()                       last in the body of a loop of literal length: the compiler writes it out
  the names in `program.intrinsics`    scalar functions and machine instructions given as data
"""
# numba-cuda and llvmlite are only partly annotated.
# mypy: disable-error-code="no-untyped-call,no-any-return,attr-defined"

from __future__ import annotations

import gc
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from cuda.bindings import nvjitlink
from llvmlite import ir
from numba.cuda import cgutils, compiler, types
from numba.cuda.core.compiler_lock import global_compiler_lock
from numba.cuda.core.compiler_machinery import PassManager
from numba.cuda.core.errors import NumbaError
from numba.cuda.core.typed_passes import AnnotateTypes, IRLegalization, NopythonTypeInference, PreLowerStripPhis
from numba.cuda.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA
from numba.cuda.descriptor import cuda_target
from numba.cuda.extending import _intrinsic as intrinsic  # the public name takes no options
from numba.cuda.np.numpy_support import from_dtype
from numba.cuda.typing import signature

from numstax import dtypes
from numstax.errors import CompileError
from numstax.program import Instruction, Intrinsic, Param, Program
from numstax.runtime.cubin import Cubin
from numstax.runtime.expand import TYPED_NAMES, Codegen, compile_error, expand, expanding
from numstax.runtime.nvvm import SPECIAL, UNROLL, adjusted

Type = Any
"""A type of Numba's."""
_lock = threading.Lock()
"""numba-cuda's compiler is not safe under threads."""


def compile_program(program: Program) -> Cubin:
    """Compile for `program.target`; fewer blocks of clusters share an SM than asked for where registers would not do.

    Raises CompileError, which shows the line that does not compile.
    """
    cubin = _compiled(program)
    while cubin.stack and program.resident > 1 and program.cluster > 1:
        program = replace(program, resident=program.resident - 1)
        cubin = _compiled(program)
    return cubin


def _compiled(program: Program) -> Cubin:
    namespace: dict[str, Any] = {"__name__": program.name, "math": math, **_TYPED_NAMES, **_memory_helpers()}
    namespace |= {i.name: _bind(i) for i in program.intrinsics}
    namespace |= {name: _vector(name) for name in set(_VECTOR.findall(program.text))}
    namespace |= {f"spread_{tile}": _spread(tile) for tile in set(_SPREAD.findall(program.text))}
    try:
        exec(compile(program.text, f"<{program.name}>", "exec"), namespace)
    except SyntaxError as error:
        raise compile_error(program, str(error), error.lineno) from error
    signature_ = types.void(*map(_type, program.params))
    with _lock, _quick_front():
        try:
            library, _ = compiler._compile_pyfunc_with_fixup(
                namespace[program.entry], signature_, device=False, abi="numba", cc=_capability(program.target),
                fastmath=False, launch_bounds=(program.block, program.resident), lto=True,
            )  # fmt: skip
        except NumbaError as error:
            raise compile_error(program, str(error), getattr(getattr(error, "loc", None), "line", None)) from error
        kernel = library.get_function(library._entry_name)
        for argument, param in zip(kernel.args, program.params, strict=True):
            if param.kind == "pointer":
                argument.add_attribute("noalias")
        _pass_by_value(kernel, [k for k, p in enumerate(program.params) if p.kind == "tensor_map"])
        if program.cluster > 1:
            _set_cluster(kernel, program.cluster)
        library._llvm_strs = [adjusted(str(module)) for module in library.modules]
        lto = library.get_ltoir(cc=_capability(program.target))
        code, log = _link(program, lto)
    return _described(code, library._entry_name, log)


def _pass_by_value(kernel: Any, positions: list[int]) -> None:
    """Tensor maps lie in the parameters of the kernel, where the instructions find them."""
    if not positions:
        return
    module = kernel.module
    numbers = module.add_metadata([ir.Constant(ir.IntType(32), k + 1) for k in positions])
    note = module.add_metadata((kernel, ir.MetaDataString(module, "grid_constant"), numbers))
    cgutils.get_or_insert_named_metadata(module, "nvvm.annotations").add(note)
    for k in positions:
        kernel.args[k].add_attribute("byval")
        kernel.args[k].attributes.align = MAP_ALIGNMENT


def _set_cluster(kernel: Any, blocks: int) -> None:
    """The kernel is launched in clusters of so many blocks along x."""
    module = kernel.module
    annotations = module.get_named_metadata("nvvm.annotations")
    for axis, count in zip("xyz", (blocks, 1, 1), strict=True):
        name = ir.MetaDataString(module, f"cluster_dim_{axis}")
        annotations.add(module.add_metadata((kernel, name, ir.Constant(ir.IntType(32), count))))


def _capability(target: str) -> tuple[Any, ...]:
    """``sm_90a`` -> (9, 0, 'a')."""
    found = re.fullmatch(r"sm_(\d+)(\d)([af]?)", target)
    if found is None:
        raise CompileError(f"{target!r} is not the name of a GPU target", remedy="name it like sm_90a")
    return (int(found[1]), int(found[2]), *([found[3]] if found[3] else []))


def _link(program: Program, lto: bytes) -> tuple[bytes, str]:
    """LTO-IR -> cubin and the log of ptxas."""
    options = [f"-arch={program.target}", "-verbose", "-lto", "-fma=0"]
    handle = nvjitlink.create(len(options), options)
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, lto, len(lto), program.name)
        nvjitlink.complete(handle)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
        return bytes(code), _log(nvjitlink.get_info_log_size, nvjitlink.get_info_log, handle)
    except nvjitlink.nvJitLinkError as error:
        log = _log(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)
        raise compile_error(program, f"{error}: {log}") from error
    finally:
        nvjitlink.destroy(handle)


def _log(size: Callable[[int], int], read: Callable[[int, bytearray], None], handle: int) -> str:
    text = bytearray(size(handle))
    if text:
        read(handle, text)
    return text.decode(errors="replace").replace("\0", "")


def _described(code: bytes, symbol: str, log: str) -> Cubin:
    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        return int(found[1]) if found else 0

    stack = number(r"(\d+) bytes stack frame")
    notices = tuple(line for line in log.splitlines() if re.search(r"\bC\d{4}\b|warning", line))
    return Cubin(code, symbol, number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), stack, notices)


# --- Numba ----------------------------------------------------------------------------------------


class _Front(compiler.CUDACompiler):
    """Numba's passes that programs need; the others, for closures, arrays and constants, take a fifth of the time."""

    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("program")
        for step in (
            *(compiler.CUDATranslateBytecode, FixupArgs, IRProcessing, ReconstructSSA),
            *(NopythonTypeInference, PreLowerStripPhis, IRLegalization, AnnotateTypes),
            *(compiler.CreateLibrary, compiler.CUDANativeLowering, compiler.CUDABackend),
        ):
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


@contextmanager
def _quick_front() -> Iterator[None]:
    """Numba compiles with fewer passes, and finds out once what a function makes of operands of some types: it asks
    four times for every expression, which was half of the time.  Its many small objects are collected afterwards."""
    typing, ordinary = cuda_target.typing_context, compiler.CUDACompiler
    known: dict[tuple[Type, tuple[Type, ...]], Any] = {}

    def resolve(function: Type, arguments: tuple[Type, ...], named: Any) -> Any:
        ask = partial(type(typing).resolve_function_type, typing, function, arguments, named)
        if named or isinstance(function, str):  # a static index is no type
            return ask()
        key = function, arguments
        if key not in known:
            known[key] = ask()
        return known[key]

    collects = gc.isenabled()
    with global_compiler_lock:
        typing.resolve_function_type, compiler.CUDACompiler = resolve, _Front  # type: ignore[misc]
        gc.disable()
        try:
            yield
        finally:
            del typing.resolve_function_type
            compiler.CUDACompiler = ordinary  # type: ignore[misc]
            if collects:
                gc.enable()


# --- types ----------------------------------------------------------------------------------------


def _storage(dtype: np.dtype | None) -> Type:
    assert dtype is not None
    return from_dtype(dtypes.storage(dtype))


def _type(param: Param) -> Type:
    match param.kind:
        case "pointer":
            return types.CPointer(_storage(param.dtype))
        case "scalar":
            return _storage(param.dtype)
        case "status":
            return types.CPointer(types.int64)
        case "size":
            return types.int64
        case "size32":
            return types.int32
        case "tensor_map":
            return _TENSOR
    raise CompileError(f"parameter '{param.name}' is of unknown kind '{param.kind}'")


_TENSOR = types.CPointer(types.UniTuple(types.uint64, 16))
MAP_ALIGNMENT = 64


def _named(name: str) -> Type:
    """The type of an operand: ``f32``, ``b1``, ``p_f32``, ``f32x128``, ``tensor``."""
    if name.startswith("p_"):
        return types.CPointer(_storage(dtypes.by_name(name[2:])))
    if name == "tensor":
        return _TENSOR
    element, _, count = name.partition("x")
    if count:
        return types.UniTuple(_named(element), int(count))
    return types.boolean if name == "b1" else from_dtype(dtypes.by_name(name))


_TYPED_NAMES = {name: getattr(types, name) for name in TYPED_NAMES}

# --- what program text can call -------------------------------------------------------------------


def _expanding(name: str, result: Type, arguments: tuple[Type, ...], codegen: Codegen) -> object:
    """A function for kernel code that `codegen` expands at each call."""
    return intrinsic(target="cuda")(expanding(name, signature(result, *arguments), len(arguments), codegen))


@cache
def _memory_helpers() -> dict[str, object]:
    helpers: dict[str, object] = {}
    for dtype in dtypes.SUPPORTED:
        pointer, name = types.CPointer(_storage(dtype)), dtypes.name(dtype)
        helpers[f"offset_{name}"] = _expanding(f"offset_{name}", pointer, (pointer, types.int64), _offset)
        helpers[f"shared_{name}"] = _expanding(f"shared_{name}", pointer, (types.int32,), _shared)
        helpers[f"registers_{name}"] = _registers(pointer, dtypes.compute(dtype))
    helpers["shared_address"] = _expanding("shared_address", types.uint32, (), _shared_address)
    helpers["unroll"] = _expanding("unroll", types.void, (), _unroll)
    return helpers


def _unroll(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    """A mark in the block that jumps back, for `adjusted`."""
    module = builder.module
    mark = module.globals.get(UNROLL) or ir.Function(module, ir.FunctionType(ir.VoidType(), ()), UNROLL)
    builder.call(mark, ())
    return context.get_dummy_value()


def _offset(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    return builder.gep(args[0], [args[1]], inbounds=True)


_SHARED = "numstax_shared"


def _shared_memory(module: ir.Module) -> ir.GlobalVariable:
    memory = module.globals.get(_SHARED)
    if memory is None:
        memory = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 0), _SHARED, addrspace=3)
        memory.linkage, memory.align = "external", 1024
    return memory


def _shared_address(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    return builder.ptrtoint(_shared_memory(builder.module), ir.IntType(32))


def _shared(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
    at = builder.gep(_shared_memory(builder.module), [ir.Constant(args[0].type, 0), args[0]], inbounds=True)
    target = context.get_value_type(signature.return_type)
    return builder.addrspacecast(builder.bitcast(at, target.pointee.as_pointer(3)), target)


def _registers(pointer: Type, dtype: np.dtype) -> object:
    """An array on the stack that the compiler takes apart into registers; of the computing type."""
    kind = types.CPointer(types.boolean if dtype == dtypes.BOOL else from_dtype(dtype))

    def typing(context: object, count: Type) -> tuple[Any, Codegen] | None:
        if not isinstance(count, types.IntegerLiteral):
            return None
        length = count.literal_value

        def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
            element = context.get_data_type(kind.dtype)
            with builder.goto_entry_block():
                memory = builder.alloca(ir.ArrayType(element, length))
            return builder.bitcast(memory, context.get_value_type(kind))

        return signature(kind, count), codegen

    typing.__name__ = "registers"
    return intrinsic(target="cuda", prefer_literal=True)(typing)


WORD = 4
"""Bytes of a register."""
_VECTOR = re.compile(r"\b((?:load|store)\d+_[a-z]\w*)\(")


@cache
def _vector(name: str) -> object:
    """``load4_f32`` and the like: one access of several neighbouring elements."""
    kind, count_text, dtype_name = re.fullmatch(r"(load|store)(\d+)_(\w+)", name).groups()  # type: ignore[union-attr]
    count, element = int(count_text), _storage(dtypes.by_name(dtype_name))
    pointer, values = types.CPointer(element), types.UniTuple(element, count)

    def words(small: ir.Type, size: int) -> tuple[ir.Type, int]:
        """What the machine moves, and how many elements these are: of small ones it would move but four at once."""
        if isinstance(small, ir.LiteralStructType):  # a complex number
            return small.elements[0], count * len(small.elements)
        if size < WORD < size * count:
            return ir.IntType(8 * WORD), size * count // WORD
        return small, count

    def address(builder: ir.IRBuilder, place: tuple[ir.Value, ...], word: ir.Type, number: int) -> ir.Value:
        at = builder.gep(place[0], [place[1]], inbounds=True)
        return builder.bitcast(at, ir.VectorType(word, number).as_pointer())

    def load(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        small = args[0].type.pointee
        size = context.get_abi_sizeof(small)
        word, number = words(small, size)
        vector = builder.load(address(builder, args, word, number), align=count * size)
        parts = [builder.extract_element(vector, ir.IntType(32)(k)) for k in range(number)]
        out = ir.Constant(ir.ArrayType(small, count), ir.Undefined)
        for k in range(count):
            value = parts[k * number // count]
            if number > count:
                value = builder.insert_value(ir.Constant(small, ir.Undefined), value, 0)
                value = builder.insert_value(value, parts[2 * k + 1], 1)
            elif number < count:
                shift = word(8 * size * (k % (count // number)))
                value = builder.trunc(builder.lshr(value, shift), small)
            out = builder.insert_value(out, value, k)
        return out

    def store(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        small = args[0].type.pointee
        size = context.get_abi_sizeof(small)
        word, number = words(small, size)
        parts = [builder.extract_value(args[2], k) for k in range(count)]
        if number > count:
            parts = [builder.extract_value(part, k) for part in parts for k in range(2)]
        elif number < count:
            each = count // number
            moved = [builder.shl(builder.zext(p, word), word(8 * size * (k % each))) for k, p in enumerate(parts)]
            parts = [reduce(builder.or_, moved[k : k + each]) for k in range(0, count, each)]
        vector = ir.Constant(ir.VectorType(word, number), ir.Undefined)
        for k, part in enumerate(parts):
            vector = builder.insert_element(vector, part, ir.IntType(32)(k))
        builder.store(vector, address(builder, args, word, number), align=count * size)
        return context.get_dummy_value()

    if kind == "load":
        return _expanding(name, values, (pointer, types.int64), load)
    return _expanding(name, types.void, (pointer, types.int64, values), store)


_SPREAD = re.compile(r"\bspread_(\w+x\d+)\(")


@cache
def _spread(tile: str) -> object:
    kind = _named(tile)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        pointer, values, first = args
        start = builder.gep(pointer, [first], inbounds=True)
        for k, value in enumerate(_flat(builder, values)):
            builder.store(value, builder.gep(start, [ir.IntType(32)(k)], inbounds=True))
        return context.get_dummy_value()

    return _expanding(f"spread_{tile}", types.void, (types.CPointer(kind.dtype), kind, types.int64), codegen)


def _flat(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    """The registers of a tile, or the one value."""
    if not isinstance(value.type, ir.ArrayType):
        return [value]
    return [builder.extract_value(value, k) for k in range(value.type.count)]


@cache
def _bind(row: Intrinsic | Instruction) -> object:
    if isinstance(row, Instruction):
        results = tuple(map(_named, row.results))
        result = types.void if not results else results[0] if len(results) == 1 else types.Tuple(results)
        return _expanding(row.name, result, tuple(map(_named, row.operands)), partial(_instruction, row))

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]) -> ir.Value:
        return expand(builder, row, args, SPECIAL)

    return _expanding(row.name, _named(row.result), tuple(map(_named, row.params)), codegen)


_REGISTERS = {"f32": "f", "f64": "d", "i32": "r", "u32": "r", "i64": "l", "u64": "l", "i16": "h", "u16": "h"}


def _instruction(
    row: Instruction, context: Any, builder: ir.IRBuilder, signature: Any, args: tuple[ir.Value, ...]
) -> ir.Value:
    """A call of inline PTX, or of a function that LLVM or the driver has."""
    flat = [value for a in args for value in _flat(builder, a)]
    names = [name for r in row.results for name in _elements(r)]
    kinds = [context.get_value_type(_named(name)) for name in names]
    result = ir.VoidType() if not kinds else kinds[0] if len(kinds) == 1 else ir.LiteralStructType(kinds)
    made = ir.FunctionType(result, [a.type for a in flat])
    if re.fullmatch(r"[\w.]+", row.text):
        module = builder.module
        function: Any = module.globals.get(row.text) or ir.Function(module, made, row.text)
    else:
        tied = sum(len(_elements(o)) for o in row.operands[: row.tied])
        constraints = [f"={_register(name)}" for name in names] + list(map(str, range(tied)))
        constraints += [_register(name) for o in row.operands[row.tied :] for name in _elements(o)]
        if row.effect:
            constraints.append("~{memory}")
        function = ir.InlineAsm(made, row.text, ",".join(constraints), side_effect=row.effect or row.together)
    call = builder.call(function, flat)
    for attribute in ("nounwind", *(("convergent",) if row.together else ())):
        call.attributes.add(attribute)
    if not kinds:
        return context.get_dummy_value()
    if len(row.results) == 1 and len(names) > 1:
        return _tile(builder, [builder.extract_value(call, k) for k in range(len(names))])
    return call


def _tile(builder: ir.IRBuilder, values: list[ir.Value]) -> ir.Value:
    tile = ir.Constant(ir.ArrayType(values[0].type, len(values)), ir.Undefined)
    for k, value in enumerate(values):
        tile = builder.insert_value(tile, value, k)
    return tile


def _elements(operand: str) -> list[str]:
    """The registers that an operand takes, by name."""
    element, _, count = operand.partition("x")
    return [element] * int(count) if count else [operand]


def _register(operand: str) -> str:
    return "l" if operand.startswith("p_") or operand == "tensor" else _REGISTERS[operand]
