"""Graph -> Schedule: one Kernel for each stored node, library calls as Externs, control flow as Controls.

Enters: a Graph.  Leaves: a Schedule whose kernels read and write flat buffers; pointwise operations and views
have dissolved into the bodies of those that use them (`storage` decides which, `values` records them).
Units stand in an order that respects data and memory: whoever reads what an in-place update replaces comes
first.  No two kernels share a loop variable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numstax import dtypes
from numstax.ir.draws import drawn
from numstax.ir.graph import CONTROL, Arg, Graph, InputSpec, Literal, Node
from numstax.ir.index import ONE, ZERO, Index, as_index, contiguous_strides, product, stride_of
from numstax.ir.loops import BufferView, Contract, Effect, Extern, Reduce, Scan, Schedule, Store, Unit
from numstax.ir.ops import VIEWS, identity
from numstax.schedule.control import write_control
from numstax.schedule.overwrite import Overwriter
from numstax.schedule.rotation import Lowered
from numstax.schedule.scatters import write_scatter
from numstax.schedule.sites import Sites
from numstax.schedule.storage import Chosen, by_library, copy_of, elements, factors, read_only, storage, targets
from numstax.schedule.updates import write_update
from numstax.schedule.values import Place
from numstax.schedule.views import through

Computes = Callable[[Node], bool]


def lower(graph: Graph, on_gpu: bool = False, chosen: Chosen = by_library, computes: Computes = read_only) -> Schedule:
    """`on_gpu` : draws of random numbers are library calls.  `chosen` : which products of matrices are not, and
    `computes` which of these compute their factors where they load them."""
    return _Lowering(graph, on_gpu, chosen, computes, private=False).schedule()


class _Lowering:
    def __init__(self, graph: Graph, on_gpu: bool, chosen: Chosen, computes: Computes, private: bool) -> None:
        self.private, self.on_gpu, self.chosen, self.computes = private, on_gpu, chosen, computes
        self.targets = targets(graph, private)
        self.storage = storage(self.targets.nodes(), private, chosen, computes)
        self.sites = Sites()
        for position, spec in enumerate(graph.inputs):
            # those of a body are what the buffers around it are
            strides = spec.strides if private else _strides(spec)
            self.sites.declare(f"x{position}", spec.dtype, spec.shape, _kind(spec), strides)
        for node in self.storage.order:
            if node.op == "input":
                name = f"x{node.attr('position')}"
                self.sites.places[node] = Place(name, self.sites.buffers[name].strides)
        self.over = Overwriter(self.storage, self.targets, self.sites, private)
        self.names = {n: f"out{k}" for k, n in enumerate(self.targets.outputs) if n is not None}

    def schedule(self) -> Schedule:
        for root in self.storage.roots:
            self._root(root)
        writes = []
        for position, node in self.targets.writes:
            name = f"x{position}"
            if self.sites.places[node].buffer != name and product(node.shape) is not ZERO:
                copy = copy_of(node)
                self.over.last(copy, node, name)
                place = Place(name, self.sites.buffers[name].strides)
                self.sites.units[copy] = [self.sites.assign(node, place)]
                self.sites.detours[name] += elements(node)
            writes.append((position, name))
        units = tuple(self.sites.current(unit) for root in self.over.order() for unit in self.sites.units[root])
        outputs = tuple(None if n is None else self.sites.places[n].buffer for n in self.targets.outputs)
        buffers = tuple(self.sites.buffers.values())
        return Schedule(units, buffers, outputs, tuple(writes), private=self.private)

    def _root(self, root: Node) -> None:
        if root.op == "extern":
            self._extern(root)
        elif root.op in CONTROL:
            write_control(root, self._results(root), self.names, self.sites, self.over, self._body)
        elif product(root.shape) is ZERO:
            self.sites.units[root], self.sites.places[root] = [], self.sites.new(root, self.names.get(root))
        elif root.op == "matmul":
            self._matmul(root)
        elif root.op == "update" and not (self.on_gpu and _is_fill(root.args[0])):
            write_update(root, self.sites, self.over, self.names.get(root))
        elif root.op == "scatter":
            write_scatter(root, self.sites, self.over, self.names.get(root))
        elif not self._in_place(root):
            self._fresh(root)

    def _body(self, graph: Graph) -> Lowered:
        lowering = _Lowering(graph, self.on_gpu, self.chosen, self.computes, private=True)
        return Lowered(lowering.schedule(), lowering.sites.detours)

    def _in_place(self, root: Node) -> bool:
        """Compute what an argument is to hold right in the argument, when nobody needs its old elements."""
        target = self.over.argument_for(root)
        if target is None:
            return False
        place = Place(target, self.sites.buffers[target].strides)
        units = self._units(root, place)
        if not all(self.sites.reads_only_own(unit, target) for unit in units):
            return False
        self.over.claim(root, target)
        self.sites.units[root], self.sites.places[root] = units, place
        return True

    def _fresh(self, root: Node) -> None:
        place = self.sites.new(root, self.names.get(root))
        self.sites.units[root] = self._units(root, place)
        self.sites.places[root] = place

    def _units(self, root: Node, place: Place) -> list[Unit]:
        family, _, op = root.op.partition("_")
        if family == "reduce":
            return self._reduce(root, op, place)
        if family == "scan":
            return self._scan(root, op, place)
        node = root.args[0] if root.op == "copy" else root
        return [self.sites.assign(node, place)]

    # --- reductions and scans ---------------------------------------------------------------------

    def _reduce(self, root: Node, op: str, place: Place) -> list[Unit]:
        x, axes = root.args[0], root.attr("axes")
        reduced: Any = axes
        positional = op in ("argmax", "argmin")
        if product(x.shape[a] for a in reduced) is ZERO:
            empty = Node("constant", (), (("value", Literal.of(identity(op, root.dtype), root.dtype)),), (), root.dtype)
            return [self.sites.assign(empty, place, root.shape)]
        index, variables = self.sites.space(x.shape)
        kept = tuple(i for axis, i in enumerate(index) if axis not in reduced)
        outer = tuple(v for axis, v in variables.items() if axis not in reduced)
        inner = tuple(v for axis, v in variables.items() if axis in reduced)
        values, recorder = self.sites.values()
        value = values.value(x, index)
        offset = place.at(kept)
        effect: Effect
        if inner:
            position = index[reduced[0]] if positional else None
            effect = Reduce(op, value, place.buffer, offset, x.dtype if positional else root.dtype, position)
        else:
            if positional:
                value = recorder.const(0, root.dtype)
            elif x.dtype != root.dtype:
                value = recorder.op("cast", (value,), root.dtype, root.origin)
            if op == "add" and dtypes.kind(root.dtype) in "fc":  # the sum of -0.0 is 0.0
                value = recorder.op("add", (value, recorder.const(0, root.dtype)), root.dtype, root.origin)
            effect = Store(place.buffer, offset, value)
        return [self.sites.kernel(outer, inner, recorder, effect)]

    def _scan(self, root: Node, op: str, place: Place) -> list[Unit]:
        x, axis = root.args[0], root.attr("axis")
        index, variables = self.sites.space(x.shape)
        values, recorder = self.sites.values()
        value = values.value(x, index)
        outer = tuple(v for a, v in variables.items() if a != axis)
        inner = tuple(v for a, v in variables.items() if a == axis)
        effect: Effect = Store(place.buffer, place.at(index), value)
        if inner:
            effect = Scan(op, value, place.buffer, place.at(index), root.dtype)
        return [self.sites.kernel(outer, inner, recorder, effect)]

    # --- products of matrices ---------------------------------------------------------------------

    def _matmul(self, root: Node) -> None:
        if root in self.storage.products:
            place = self.sites.new(root, self.names.get(root))
            self.sites.units[root], self.sites.places[root] = [self._contract(root, place)], place
        else:
            self._library_product(root)

    def _contract(self, root: Node, place: Place) -> Unit:
        if root.args[0].shape[-1] is ZERO:
            nothing = (("value", Literal.of(0, root.dtype)),)
            return self.sites.assign(Node("constant", (), nothing, (), root.dtype), place, root.shape)
        a, b = factors(root)
        index, variables = self.sites.space(root.shape)
        along = self.sites.fresh.var(a.shape[-1])
        values, recorder = self.sites.values()
        left = values.value(a, (*index[:-1], as_index(along)))
        right = values.value(b, (*index[:-2], as_index(along), index[-1]))
        how = root.attr("precision"), root.attr("group"), root.attr("template")
        effect = Contract(left, right, place.buffer, place.at(index), root.dtype, *how)
        return self.sites.kernel(tuple(variables.values()), (along,), recorder, effect)

    def _library_product(self, root: Node) -> None:
        units: list[Unit] = []
        operands = tuple(self._operand(a, units) for a in root.args)
        place = self.sites.new(root, self.names.get(root))
        out = BufferView(place.buffer, ZERO, root.shape, place.strides)
        units.append(Extern("numpy.matmul", operands, (), (), out, origin=root.origin))
        self.sites.units[root], self.sites.places[root] = units, place

    # --- library calls ----------------------------------------------------------------------------

    def _extern(self, root: Node) -> None:
        units: list[Unit] = []
        operands = [self._operand(a, units) for a in root.args]

        def fill(tree: Any) -> Any:
            if isinstance(tree, Arg):
                return operands[tree.k]
            if isinstance(tree, tuple | list):
                items = [fill(t) for t in tree]
                return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
            return tree

        taken = self._results(root)
        shapes: Any = root.attr("results")
        names = []
        for k, (shape, dtype) in enumerate(shapes):
            node = taken.get(k)
            shape = tuple(as_index(n) for n in shape)
            name = self.names.get(node) if node is not None else None
            names.append(self.sites.buffer(dtype, shape, name))
            if node is not None:
                self.sites.places[node] = Place(names[-1], contiguous_strides(shape))
        kwargs: Any = root.attr("kwargs")
        units.append(
            Extern(
                root.attr("function"),
                fill(root.attr("args")),
                tuple((key, fill(tree)) for key, tree in kwargs),
                tuple(names),
                None,
                "" if self.on_gpu else drawn(root),
                root.origin,
            )
        )
        self.sites.units[root] = units

    def _results(self, root: Node) -> dict[int, Node]:
        """The results of a library call or control flow that are used, by number."""
        return {n.attr("k"): n for n in self.storage.order if n.op == "result" and n.args[0] is root}

    def _operand(self, node: Node, units: list[Unit]) -> object:
        """What a library function is given for `node`: a constant, a size, a strided view, or a new array."""
        if node.op in ("constant", "size"):
            return node.attr("value" if node.op == "constant" else "index")
        view = self._strided(node)
        if view is None:
            place = self.sites.new(node)
            if product(node.shape) is not ZERO:
                units.append(self.sites.assign(node, place))
            view = BufferView(place.buffer, ZERO, node.shape, place.strides)
        return view

    def _strided(self, node: Node) -> BufferView | None:
        """`node` as a view of a buffer, when it is only views away from one."""
        variables = [self.sites.fresh.var(n) for n in node.shape]
        index: tuple[Index, ...] = tuple(as_index(v) for v in variables)
        source = node
        while source not in self.sites.places:
            if source.op not in VIEWS:
                return None
            index, source = through(source, index), source.args[0]
        offset = self.sites.places[source].at(index)
        strides: list[Index] = []
        for var in variables:
            stride = stride_of(offset, var)
            if stride is None:
                return None
            strides.append(stride)
            offset = offset - stride * var
        return BufferView(self.sites.places[source].buffer, offset, node.shape, tuple(strides))


def _kind(spec: InputSpec) -> str:
    return "scalar" if spec.kind == "scalar" else "input"


def _strides(spec: InputSpec) -> tuple[Index, ...]:
    """An axis of one element has no stride to speak of."""
    return tuple(ZERO if n is ONE else as_index(s) for n, s in zip(spec.shape, spec.strides, strict=True))


def _is_fill(node: Node) -> bool:
    """Is it one number everywhere?  What has a border of it is written by one kernel on a GPU, where the parts would be
    a launch each."""
    while node.op in VIEWS:
        (node,) = node.args
    return node.op == "constant"
