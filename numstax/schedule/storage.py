"""Which nodes get memory of their own, and which are recomputed where they are used.

Enters: a Graph.  Leaves: its `Targets` (what must end up in an output or an argument) and a `Storage`.
Reductions, scans, library calls, outputs and written arguments are stored, and requirements where somebody sees the
arguments change, so that they can be checked before that.  Any other value is stored when that
costs less than computing it again at every use:

    recompute = evaluations * operations        store = elements * (operations + STORE) + evaluations * LOAD + KERNEL

in units of one addition.  Evaluations differ from elements when a value is used by several kernels, through
several views, or broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from numstax import dtypes
from numstax.ir.graph import CONTROL, Graph, Node, control_args, is_state, topological
from numstax.ir.index import ONE, as_index, bounds, hint, product
from numstax.ir.ops import ELEMENTWISE, VIEWS
from numstax.records import record
from numstax.schedule.positions import checked, failing, fails, outlives

STORE = 8
"""Writing one element to memory and reading it back, in additions."""
LOAD = 2
KERNEL = 1000
"""Starting one more kernel, in additions."""
GATHER = 4
SELECT = 8
"""Choosing between two masked reads; a loop that does so is slow, since it is not vectorised."""
BORDER = 4
"""Where all but one in so many elements come from one part, loops over that part choose nothing."""
PARTS = 4
"""Writes in such a chain, at most."""
LONGEST = 512
"""Instructions that evaluate a value wherever it is used, at most, if it is used at several places: they take time to
compile."""
COMPLEX, COMPLEX_FUNCTION, COSTLY = 3, 40, 20
"""Statements that a complex operation takes, and one of so many flops and more."""
LARGEST = 1 << 40
LEAVES = ("input", "constant", "size", "iota", "empty", "extern", "result", *CONTROL)
"""Nodes that no kernel computes."""


@record
class Targets:
    """outputs : the node of each fresh output, None for an alias.
    writes : argument position and node.
    No node stands twice among these, and none is a leaf other than a state, or an output that a library call makes:
    there a 'copy' node of it does.
    binders : nodes that are computed first, for the sizes they show.
    """

    outputs: tuple[Node | None, ...]
    writes: tuple[tuple[int, Node], ...]
    binders: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        return [*self.binders, *(n for n in self.outputs if n is not None), *(n for _, n in self.writes)]


def targets(graph: Graph, private: bool) -> Targets:
    """`private` : nobody sees the arguments when something fails."""
    taken: set[Node] = set()

    def own(node: Node, new: bool = False) -> Node:
        """`new` : what a function of NumPy made will do; one of the user may keep it."""
        kept = is_state(node) or (new and node.op == "result" and isinstance(node.args[0].attr("function"), str))
        if node in taken or (node.op in LEAVES and not kept):
            node = copy_of(node)
        taken.add(node)
        return node

    outputs = tuple(own(o.node, new=True) if o.alias is None else None for o in graph.outputs)
    found = Targets(outputs, tuple((position, own(node)) for position, node in graph.writes), graph.binders)
    return _checked(found, private)


def _checked(targets: Targets, private: bool) -> Targets:
    made = checked(targets.nodes(), [] if private else [node for _, node in targets.writes])
    outputs = tuple(None if n is None else made[n] for n in targets.outputs)
    writes = tuple((position, made[node]) for position, node in targets.writes)
    return Targets(outputs, writes, tuple(made[node] for node in targets.binders))


def copy_of(node: Node) -> Node:
    return Node("copy", (node,), (), node.shape, node.dtype, node.origin)


Demand = dict[Node, int]
"""How often each root evaluates a node."""
Site = tuple[object, ...]
"""Where the code for a node stands: a root, then what led from there to other elements."""


Chosen = Callable[[Mapping[Node, bool]], Iterable[Node]]
"""Given the products of matrices of a graph, and whether something follows each element by element: which of them are
loops of ours, not calls of a library?"""


def by_library(products: Mapping[Node, bool]) -> Iterable[Node]:
    return ()


def read_only(node: Node) -> bool:
    """Are the factors of no product computed where they are loaded?"""
    return False


CHEAP = 8
"""Operations for an element of a factor that is computed for every tile that needs it, at most."""


@record
class Storage:
    """order : every live node, operands before users.
    roots : the stored nodes that need code, in that order.
    readers : for each node in memory, the roots that read it.
    products : the products of matrices that are loops.
    """

    order: tuple[Node, ...]
    roots: tuple[Node, ...]
    readers: dict[Node, set[Node]]
    products: frozenset[Node]


def storage(
    wanted: list[Node], private: bool, chosen: Chosen = by_library, computes: Callable[[Node], bool] = read_only
) -> Storage:
    """`private` : nobody sees the arguments when something fails.  `computes` : may a kernel for this product compute
    its factors element by element?"""
    order = topological(wanted)
    followed = _followed(order)
    products = frozenset(chosen({node: node in followed for node in order if node.op == "matmul"}))
    memory = [node for node in order if _has_memory(node) or (node.op == "require" and not private)]
    unsafe = failing(order, memory)
    loading = frozenset(node for node in products if not computes(node))
    # reductions would compute it where they read it
    behind = (followed[node] for node in products if node in followed)
    forced = {*wanted, *behind, *(a for node in order for a in _whole(node, unsafe, products, loading))}
    stored = {*memory, *(n for n in order if n in forced and n.op not in LEAVES)}
    return _Chooser(order, stored).run(products)


def _followed(order: Sequence[Node]) -> dict[Node, Node]:
    """Products that something follows element by element, and the last of what follows with nothing beside it; the
    product itself where it has several users, and one of them is read by no reduction."""
    users: dict[Node, list[Node]] = {}
    reduced: set[Node] = set()
    for node in reversed(order):
        if node.op.startswith(("reduce_", "scan_")) or (node in reduced and (_is_pointwise(node) or node.op in VIEWS)):
            reduced.update(node.args)
        for arg in dict.fromkeys(node.args):
            users.setdefault(arg, []).append(node)
    found = {}
    for node in order:
        if node.op == "matmul":
            last = node
            while len(after := users.get(last, [])) == 1 and _is_pointwise(after[0]) and after[0].shape == node.shape:
                (last,) = after
            if last is not node or any(_is_pointwise(user) and user not in reduced for user in users.get(node, [])):
                found[node] = last
    return found


def _is_pointwise(node: Node) -> bool:
    return node.op in ELEMENTWISE or node.op == "cast"


def _has_memory(node: Node) -> bool:
    kinds = ("input", "result", "matmul", "extern", "scatter", "positions", *CONTROL)
    return node.op in kinds or node.op.startswith(("reduce_", "scan_"))


def _whole(node: Node, unsafe: set[Node], products: frozenset[Node], loading: frozenset[Node]) -> Iterator[Node]:
    """What must lie in memory for `node`, also what could fail while it writes to an argument, or does not fail where
    `node` has no elements that would ask for it.  `loading` : products whose factors do."""
    if node in products and node not in loading:
        yield from (_unviewed(a) for a in factors(node) if a in unsafe or _flops(a) > CHEAP)
    elif node.op in ("matmul", "extern"):
        yield from map(_unviewed, factors(node) if node in products else node.args)
    elif node.op in CONTROL:
        yield from control_args(node)[2]
    elif node.op == "scatter":
        yield node.args[0]
        if not fails(node) and node.args[1] in unsafe:
            yield node.args[1]
    elif node.op != "update":
        yield from (a for a in node.args if a in unsafe and outlives(a, node))


def factors(node: Node) -> tuple[Node, ...]:
    """What a product multiplies: also what its factors are cast from, where instructions take that and lose nothing."""
    if any(a.op != "cast" for a in node.args):
        return node.args
    narrow, wide = {a.args[0].dtype for a in node.args}, node.dtype
    if len(narrow) == 1 and (*narrow, wide) in _WIDENING:
        return tuple(a.args[0] for a in node.args)
    return node.args


_WIDENING = {
    *((low, dtypes.FLOAT32) for low in dtypes.LOW_FLOATS),
    *((low, half) for low in (dtypes.FLOAT8_E4M3, dtypes.FLOAT8_E5M2) for half in (dtypes.BFLOAT16, dtypes.FLOAT16)),
    *((low, dtypes.INT32) for low in (dtypes.INT8, dtypes.UINT8)),
}


def _flops(node: Node) -> int:
    """Operations behind an element that is computed from memory element by element; LARGEST for any other."""
    if _has_memory(node) or node.op in LEAVES:
        return 0
    if node.op not in ELEMENTWISE and node.op not in (*VIEWS, "cast"):
        return LARGEST
    own = ELEMENTWISE[node.op].flops if node.op in ELEMENTWISE else int(node.op == "cast")
    return own + sum(map(_flops, node.args))


def _unviewed(node: Node) -> Node:
    while node.op in VIEWS:
        node = node.args[0]
    return node


def elements(node: Node) -> int:
    return hint(product(node.shape))


class _Chooser:
    """Operands first: the operations behind each value.  Users first: who evaluates it how often.

    length : instructions that evaluate one element.
    parts : for each update chain without gaps, the number of its parts, how many elements these have, the largest has,
    and whether nothing is below; bordered : those of which one part is most.
    """

    def __init__(self, order: list[Node], stored: set[Node]) -> None:
        self.order, self.stored = order, stored
        self.users: dict[Node, list[Node]] = {node: [] for node in order}
        for node in order:
            for arg in dict.fromkeys(node.args):
                self.users[arg].append(node)
        self.direct: dict[Node, Demand] = {node: {} for node in order}
        self.viewed: dict[Node, list[Demand]] = {node: [] for node in order}
        self.work: dict[Node, int] = {}
        self.total: dict[Node, int] = {}
        self.length: dict[Node, int] = {}
        self.parts: dict[Node, tuple[int, int, int, bool]] = {}
        self.bordered: set[Node] = set()
        self.sites: dict[Node, set[Site]] = {node: set() for node in order}
        for node in order:
            self._count(node)

    def _count(self, node: Node) -> None:
        """`work`: operations behind one element, computed in place; `total`: behind all of them, stored.  An
        update in place evaluates both its operands everywhere, a stored one each where it is needed."""
        if node in self.stored or node.op in LEAVES:
            self.work[node] = self.total[node] = 0
            self.length[node] = 1
            return
        own = {"gather": GATHER, "update": SELECT, "cast": 1, "bitcast": 1}.get(node.op, 0)
        if node.op in ELEMENTWISE:
            own = ELEMENTWISE[node.op].flops
        behind = [self.work[a] for a in dict.fromkeys(node.args)]
        if node.op == "update":
            self._look_for_border(node)
        self.length[node] = min(_statements(node) + sum(self.length[a] for a in node.args), LARGEST)
        self.work[node] = max(behind) if node in self.bordered else min(own + sum(behind), LARGEST)
        self.total[node] = elements(node) * self.work[node]
        if node.op == "update":
            self.total[node] = sum(self.total[a] for a in node.args)

    def _look_for_border(self, node: Node) -> None:
        """Does most of an update chain come from one array, without gaps?"""
        base, value = node.args
        unknown = base.op == "update" and base not in self.parts and base not in self.stored
        if unknown or any(as_index(step) is not ONE for step in node.attr("steps")):
            return
        total = elements(node)
        count, written, largest, fresh = self.parts.get(base, (0, 0, 0, base.op == "empty"))
        written, largest = min(written + elements(value), total), max(largest, elements(value))
        self.parts[node] = count + 1, written, largest, fresh
        covered, rest = (written, 0) if fresh else (total, total - written)
        if count < PARTS and BORDER * (covered - max(largest, rest)) <= covered:
            self.bordered.add(node)

    def run(self, products: frozenset[Node]) -> Storage:
        readers: dict[Node, set[Node]] = {}
        for node in reversed(self.order):
            demand = self._demand(node)
            if node not in self.stored and self._worth_storing(node, demand):
                self.stored.add(node)
            if node in self.stored:
                readers[node] = set(demand)
                self.sites[node] = {(node,)}
            self._pass_on(node, demand)
        roots = tuple(n for n in self.order if n in self.stored and n.op not in ("input", "result"))
        return Storage(tuple(self.order), roots, readers, products)

    def _demand(self, node: Node) -> Demand:
        """Uses at one index share an evaluation; each view asks for other elements."""
        total = dict(self.direct[node])
        for demand in self.viewed[node]:
            for root, count in demand.items():
                total[root] = total.get(root, 0) + count
        return total

    def _worth_storing(self, node: Node, demand: Demand) -> bool:
        if node.op in LEAVES or node.op in VIEWS or not demand:
            return False
        if node.op == "update" and self._is_rewritten(node):
            return True
        if self._is_long(node):
            return True
        evaluations = sum(demand.values())
        stored = self.total[node] + elements(node) * STORE + evaluations * LOAD
        if bounds(product(node.shape))[1] is not None:
            # among unbounded sizes those count that make this look small
            stored += KERNEL
        return evaluations * self.work[node] > stored

    def _is_long(self, node: Node) -> bool:
        """Would the code for it, at each of the places that use it, be too much?"""
        places = len(self.viewed[node]) + 1 if node in self.bordered else len(self.sites[node])
        return places > 1 and min(self.length[node], LONGEST + 1) * places > LONGEST

    def _is_rewritten(self, node: Node) -> bool:
        """Is an update the base of a later one in memory, and read by others too?  Then that can overwrite it."""
        users = self.users[node]
        return len(users) > 1 and any(u.op == "update" and u.args[0] is node and u in self.stored for u in users)

    def _pass_on(self, node: Node, demand: Demand) -> None:
        for k, arg in enumerate(node.args):
            asked = {node: _evaluations(node, k)} if node in self.stored else demand
            if asked is demand and k and node in self.bordered:
                asked = {root: count * elements(arg) // max(elements(node), 1) for root, count in demand.items()}
            moves = node.op in VIEWS or (node.op == "update" and k == 1)
            self.sites[arg] |= (
                {(*site, node.op, node.attrs) for site in self.sites[node]} if moves else self.sites[node]
            )
            if node.op in VIEWS:
                self.viewed[arg].append(asked)
            else:
                _merge(self.direct[arg], asked)


def _statements(node: Node) -> int:
    """About what is printed for one element."""
    if dtypes.kind(node.dtype) != "c" or node.op not in ELEMENTWISE:
        return 1
    return COMPLEX_FUNCTION if ELEMENTWISE[node.op].flops >= COSTLY else COMPLEX


def _evaluations(root: Node, k: int) -> int:
    """How many elements of its k-th operand a root evaluates."""
    arg = root.args[k]
    if root.op.startswith(("reduce_", "scan_")) or root.op in ("update", "matmul", "extern", "scatter", *CONTROL):
        return elements(arg)
    return elements(root)


def _merge(into: Demand, more: Demand) -> None:
    for root, count in more.items():
        into[root] = max(into.get(root, 0), count)
