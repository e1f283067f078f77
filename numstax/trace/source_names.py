"""Variables of statements without jumps: assigned, read, and read before they are assigned (live).

Statements enter; sets of names leave.  Functions, lambdas and comprehensions inside read what they use when they
run, which may be at any time (`closed_over`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Names = frozenset[str]


def assigned(body: Iterable[ast.stmt]) -> Names:
    """The variables of this function that the statements may assign; the name of an exception ends with its handler."""
    return frozenset(_assigned(body))


def _assigned(body: Iterable[ast.AST]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif not isinstance(node, _SCOPES):
            if isinstance(node, ast.MatchAs | ast.MatchStar | ast.MatchMapping):
                name = node.rest if isinstance(node, ast.MatchMapping) else node.name
                yield from [name] if name else []
            yield from _assigned(ast.iter_child_nodes(node))


def read(node: ast.AST) -> Names:
    """Every name that is read inside, in functions and comprehensions too."""
    loads = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    changed = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    return frozenset(loads | changed)


def closed_over(body: Iterable[ast.stmt]) -> Names:
    """The names that functions and lambdas inside read."""
    inner: set[str] = set()
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Lambda):
                inner |= read(node) - {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner |= read(node)
    return frozenset(inner)


def changed_inside(body: Iterable[ast.stmt]) -> Names:
    """The variables that functions inside declare as nonlocal."""
    inner = (n for s in body if not isinstance(s, ast.Nonlocal) for n in ast.walk(s) if isinstance(n, ast.Nonlocal))
    return frozenset(name for node in inner for name in node.names)


def live_before(body: list[ast.stmt], after: Names) -> Names:
    """The variables whose value before the statements is read by them or, where they do not assign it, after them."""
    live = after
    for node in reversed(body):
        live = _live(node, live)
    return live


def _live(node: ast.stmt, after: Names) -> Names:
    match node:
        case ast.If():
            return read(node.test) | live_before(node.body, after) | live_before(node.orelse, after)
        case ast.While():
            return _loop(read(node.test), node.body, Names(), after)
        case ast.For():
            wanted = getattr(node, "wanted", None)
            test = Names() if wanted is None else read(wanted)
            return read(node.iter) | _loop(test | _places(node.target), node.body, assigned([_target(node)]), after)
        case ast.Try():
            handlers = frozenset().union(*(live_before(h.body, after) - {h.name} for h in node.handlers), Names())
            late = live_before(node.finalbody, after | handlers)
            body = live_before(node.body, live_before(node.orelse, late) | late)
            return body | late | handlers
        case ast.With():
            # the body may stop anywhere
            return frozenset().union(*(read(i) for i in node.items)) | live_before(node.body, after) | after
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = Names() if node.value is None else read(node.value)
            gone = {t.id for t in _flat(targets) if isinstance(t, ast.Name)}
            return (
                (after - gone if node.value is not None else after) | value | frozenset().union(*map(_places, targets))
            )
        case ast.AugAssign():
            return after | read(node)
        case ast.Delete():
            return (after - {t.id for t in node.targets if isinstance(t, ast.Name)}) | read(node)
        case ast.FunctionDef() | ast.ClassDef():
            return (after - {node.name}) | read(node)
        case ast.Return() | ast.Raise():
            return read(node)
    return after | read(node)


def _loop(test: Names, body: list[ast.stmt], target: Names, after: Names) -> Names:
    """The body may run any number of times."""
    live = after | test
    while True:
        grown = live | test | (live_before(body, live) - target)
        if grown == live:
            return live
        live = grown


def _target(node: ast.For) -> ast.stmt:
    return ast.Assign([node.target], node.iter)


def _flat(targets: Iterable[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _flat(target.elts)
        elif isinstance(target, ast.Starred):
            yield from _flat([target.value])
        else:
            yield target


def _places(target: ast.expr) -> Names:
    """What is read to find the place of an assignment: ``a`` and ``i`` of ``a[i] = ..``."""
    return frozenset().union(*(read(t) for t in _flat([target]) if not isinstance(t, ast.Name)), Names())
