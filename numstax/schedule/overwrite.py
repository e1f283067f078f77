"""Who may overwrite what: the order of roots, and the memory that an update takes over.

Enters: the storage decisions.  Leaves: answers to "may this root write over that node?", and an order of the
roots in which everyone who reads replaced elements has read them.  What holds in between: data edges and the
edges added by `claim` have no cycle.
"""

from __future__ import annotations

from collections.abc import Iterator

from numstax.ir.graph import CONTROL, Node, control_bodies
from numstax.ir.index import Symbol, atoms
from numstax.ir.show import index_leaves
from numstax.schedule.positions import based_on, failing
from numstax.schedule.sites import Sites
from numstax.schedule.storage import Storage, Targets


class Overwriter:
    def __init__(self, storage: Storage, targets: Targets, sites: Sites, private: bool) -> None:
        self._roots = list(storage.roots)
        self._sites = sites
        self._kept = set(targets.nodes())
        self._arguments: dict[str, Node | None] = {f"x{position}": None for position, _ in targets.writes}
        self._allowed: dict[Node, str] = {}
        for node in storage.order:
            if node.op == "input" and f"x{node.attr('position')}" in self._arguments:
                self._arguments[f"x{node.attr('position')}"] = node
        for position, node in targets.writes:
            self._allow(node, f"x{position}")
        roots = set(storage.roots)
        # what fails after an argument has changed would leave a half-done call behind
        self._failing = set[Node]() if private else roots & failing(storage.order, roots)
        self._readers = {node: set(roots) for node, roots in storage.readers.items()}
        self._after: dict[Node, set[Node]] = {root: set() for root in self._roots}
        for node, roots in self._readers.items():
            if node.op not in ("input", "extern", *CONTROL):
                self._after[_maker(node)] |= {_maker(r) for r in roots}
        if targets.binders:
            self._bind_sizes_first(storage, targets)
        self._overwritten: set[Node] = set()

    def _bind_sizes_first(self, storage: Storage, targets: Targets) -> None:
        """Whoever uses a size that depends on data comes after the library call that shows it."""
        binders: dict[Symbol, Node] = {}
        for node in targets.binders:
            for symbol in _symbols(node):
                binders.setdefault(symbol, _maker(node))
        roots = set(storage.roots)
        needed: dict[Node, set[Node]] = {}
        for node in storage.order:
            needed[node] = {binders[symbol] for symbol in _symbols(node) if symbol in binders}
            needed[node] |= set().union(*(needed[a] for a in node.args if a not in roots))
            if node in roots:
                for binder in needed[node] - {node}:
                    self._after[binder].add(node)

    def _allow(self, node: Node, argument: str) -> None:
        """`node`, and what it is based on down to the argument itself, may live in the argument."""
        self._allowed.setdefault(node, argument)
        links: list[Node] = []
        base = node
        while (below := based_on(base)) is not None:
            links.append(base)
            base = below
        if base is self._arguments[argument] and not self._kept & set(links[1:]):
            for link in links:
                self._allowed.setdefault(link, argument)

    def argument_for(self, root: Node) -> str | None:
        """The argument that `root` may replace as a whole."""
        argument = self._allowed.get(root)
        if argument is None or root not in self._kept:
            return None
        old = self._arguments[argument]
        return argument if self._is_safe(root) and (old is None or self._free(old, root)) else None

    def reads(self, root: Node, argument: str) -> bool:
        """Does `root` read what the argument held at first?"""
        old = self._arguments[argument]
        return old is not None and root in self._readers.get(old, ())

    def may_overwrite(self, base: Node, root: Node) -> bool:
        """May `root` take over the memory of `base`?"""
        place = self._sites.places.get(base)
        if place is None or base in self._kept:
            return False
        if self._sites.buffers[place.buffer].kind == "temp":
            return self._free(base, root)
        return self._allowed.get(root) == place.buffer and self._is_safe(root) and self._free(base, root)

    def _is_safe(self, root: Node) -> bool:
        """Can everything that may fail run before `root`?"""
        root = _maker(root)
        return root not in self._failing and not self._failing & self._reachable(root)

    def _free(self, base: Node, root: Node) -> bool:
        """Can all others that read `base` run before `root`?"""
        if base in self._overwritten:
            return False
        root = _maker(root)
        later = self._reachable(root)
        return not any(_maker(r) in later for r in self._readers.get(base, ()) if r is not root)

    def _reachable(self, root: Node) -> set[Node]:
        seen: set[Node] = set()
        stack = [root]
        while stack:
            for following in self._after[stack.pop()]:
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        return seen

    def claim(self, root: Node, base: Node | str) -> None:
        """`root` writes over `base` (a node, or an argument by name): its other readers go first."""
        root = _maker(root)
        if isinstance(base, str) or self._sites.places[base].buffer in self._arguments:
            for other in self._failing:
                self._after[other].add(root)
        old = self._arguments[base] if isinstance(base, str) else base
        if old is None:
            return
        self._overwritten.add(old)
        for reader in self._readers.get(old, ()):
            if reader is not root:
                self._after[_maker(reader)].add(root)

    def last(self, copy: Node, node: Node, argument: str) -> None:
        """`copy` brings `node` into an argument after everything else."""
        self._after[copy] = set()
        for root in self._roots:
            self._after[root].add(copy)
        self._roots.append(copy)

    def order(self) -> list[Node]:
        """All roots, as near to their original order as the edges allow."""
        waiting = dict.fromkeys(self._roots, 0)
        for root in self._roots:
            for following in self._after[root]:
                waiting[following] += 1
        place = {root: k for k, root in enumerate(self._roots)}
        ready = sorted((r for r in self._roots if not waiting[r]), key=lambda r: -place[r])
        out: list[Node] = []
        while ready:
            root = ready.pop()
            out.append(root)
            for following in sorted(self._after[root], key=lambda r: -place[r]):
                waiting[following] -= 1
                if not waiting[following]:
                    ready.append(following)
        assert len(out) == len(self._roots), "the order of the schedule has a cycle"
        return out


def _symbols(node: Node) -> Iterator[Symbol]:
    """The sizes that depend on data."""
    for index in index_leaves((node.shape, tuple(value for _, value in node.attrs))):
        yield from (atom for atom in atoms(index) if isinstance(atom, Symbol) and atom.hint is None)
    if node.op in CONTROL:
        for body in control_bodies(node):
            for inner in body.nodes():
                yield from _symbols(inner)


def _maker(node: Node) -> Node:
    """The root that computes a node: a result is made by its extern, a state by its control flow."""
    return node.args[0] if node.op == "result" else node
