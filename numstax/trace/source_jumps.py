"""Statements with ``break``, ``continue`` and early ``return`` -> the same without, by flags.

A function body enters; a new one leaves in which the only ``return`` is the last statement.  Where a branch ends in a
return, what follows the statement becomes the other branch; elsewhere a flag tells that a jump was taken, and what
follows is guarded by it.  A ``for`` that may stop early has an attribute ``wanted``: the expression that says whether
another iteration is wanted.
"""

from __future__ import annotations

import ast
import copy

RESULT = "result_"
RETURNED = "returned_"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_JUMPS = (ast.Return, ast.Break, ast.Continue)


def without_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a function without jumps; the statements of `body` are not changed."""
    body = [_WalrusLoops().visit(node) for node in _reached(copy.deepcopy(body))]
    inner = [s for s in body if not isinstance(s, _JUMPS)]
    if not any(map(_has_work, inner)):
        return body
    if not any(_contains(s, ast.Return) for s in inner):
        *before, last = body
        if isinstance(last, ast.Return):
            return [*_Jumps().block(before, None), last]
        return _Jumps().block(body, None)
    if not _ends(body):
        body.append(ast.copy_location(ast.Return(ast.Constant(None)), body[-1]))
    out = _Jumps().block(body, None)
    if any(_assigns(s, RETURNED) for s in out):
        out.insert(0, _set(RETURNED, ast.Constant(False), body[0]))
    return [*out, ast.copy_location(ast.Return(ast.Name(RESULT, ast.Load())), body[-1])]


def _reached(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements before and with the first jump, here and in the blocks inside, which change."""
    ends = [k for k, node in enumerate(body) if isinstance(node, (*_JUMPS, ast.Raise))]
    kept = body[: ends[0] + 1] if ends else body
    for node in kept:
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for name in ("body", "orelse", "finalbody"):
                if isinstance(getattr(part, name, None), list) and not isinstance(part, _SCOPES):
                    setattr(part, name, _reached(getattr(part, name)))
    return kept


def has_jump(node: ast.AST) -> bool:
    return _contains(node, _JUMPS)


def has_walrus(node: ast.AST) -> bool:
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


class _WalrusLoops(ast.NodeTransformer):
    """A loop whose test assigns -> a loop that breaks when the test, now in its body, fails."""

    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        if has_walrus(node.test) and not node.orelse:
            stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
            node.body.insert(0, ast.fix_missing_locations(ast.copy_location(stop, node.test)))
            node.test = ast.copy_location(ast.Constant(True), node.test)
        return node


def _has_work(node: ast.AST) -> bool:
    """Is there a jump, or the ``else`` of a loop?"""
    if isinstance(node, _SCOPES):
        return False
    is_loop_else = isinstance(node, ast.For | ast.While) and bool(node.orelse)
    return is_loop_else or isinstance(node, _JUMPS) or any(map(_has_work, ast.iter_child_nodes(node)))


def _contains(node: ast.AST, kinds: type | tuple[type, ...]) -> bool:
    """Is there such a statement inside, nested functions aside?"""
    if isinstance(node, _SCOPES):
        return False
    return isinstance(node, kinds) or any(_contains(child, kinds) for child in ast.iter_child_nodes(node))


def _leaves(node: ast.AST, kind: type) -> bool:
    """Is there a ``break`` (or ``continue``) inside that belongs to the loop around `node`?"""
    if isinstance(node, _SCOPES):
        return False
    if isinstance(node, ast.For | ast.While):
        return any(_leaves(child, kind) for child in node.orelse)
    return isinstance(node, kind) or any(_leaves(child, kind) for child in ast.iter_child_nodes(node))


def _assigns(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in ast.walk(node))


def _ends(body: list[ast.stmt]) -> bool:
    """Does control never come to the end of these statements?"""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return _ends(last.body) and _ends(last.orelse)
    if isinstance(last, ast.For | ast.While):
        return _ends(last.orelse) and not any(_leaves(s, ast.Break) for s in last.body)
    return isinstance(last, ast.Return | ast.Raise)


class _Loop:
    """The names of the flags of a loop."""

    def __init__(self, number: int) -> None:
        self.broken, self.skipped = f"broken_{number}_", f"skipped_{number}_"


class _Jumps:
    def __init__(self) -> None:
        self._loops = 0
        self._deep = 0
        """How many statements around have to finish: in them a return sets a flag."""

    def block(self, body: list[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        """The statements without jumps; `loop` is the one around them."""
        out: list[ast.stmt] = []
        for k, node in enumerate(body):
            rest = body[k + 1 :]
            if isinstance(node, _JUMPS):
                return [*out, *self._jump(node, loop)]
            if isinstance(node, ast.If) and not self._deep and (_ends(node.body) or _ends(node.orelse)):
                return [*out, self._choice(node, rest)]
            flags = self._flags(node, loop)
            out += self._statement(node, loop)
            if flags and rest:
                guarded = self.block(rest, loop)
                return [*out, ast.copy_location(ast.If(_none_of(flags, node), guarded, []), rest[0])]
        return out

    def _jump(self, node: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        if isinstance(node, ast.Return):
            value = node.value or ast.copy_location(ast.Constant(None), node)
            flag = [_set(RETURNED, ast.Constant(True), node)] if self._deep else []
            return [_set(RESULT, value, node), *flag]
        assert loop is not None
        return [_set(loop.broken if isinstance(node, ast.Break) else loop.skipped, ast.Constant(True), node)]

    def _choice(self, node: ast.If, rest: list[ast.stmt]) -> ast.stmt:
        """``if c: return a`` and what follows, which stands in the branch that goes on."""
        then, orelse = (node.body, [*node.orelse, *rest]) if _ends(node.body) else ([*node.body, *rest], node.orelse)
        made = ast.If(node.test, self.block(then, None), self.block(orelse, None))
        return ast.copy_location(made, node)

    def _flags(self, node: ast.stmt, loop: _Loop | None) -> list[str]:
        """The flags that the statement may set."""
        flags = [RETURNED] if _contains(node, ast.Return) else []
        if loop is not None:
            flags += [loop.broken] if _leaves(node, ast.Break) else []
            flags += [loop.skipped] if _leaves(node, ast.Continue) else []
        return flags

    def _statement(self, node: ast.stmt, loop: _Loop | None) -> list[ast.stmt]:
        if not _has_work(node):
            return [node]
        self._deep += 1
        try:
            match node:
                case ast.If():
                    node.body, node.orelse = self.block(node.body, loop), self.block(node.orelse, loop)
                case ast.With():
                    node.body = self.block(node.body, loop)
                case ast.Try():
                    self._try(node, loop)
                case ast.Match():
                    for case in node.cases:
                        case.body = self.block(case.body, loop)
                case ast.For() | ast.While():
                    return self._loop(node, loop)
            return [node]
        finally:
            self._deep -= 1

    def _try(self, node: ast.Try, loop: _Loop | None) -> None:
        flags = list(dict.fromkeys(flag for s in node.body for flag in self._flags(s, loop)))
        node.body = self.block(node.body, loop)
        for handler in node.handlers:
            # a jump that a failing __exit__ stopped is not taken
            handler.body = [*(_set(f, ast.Constant(False), handler) for f in flags), *self.block(handler.body, loop)]
        orelse = self.block(node.orelse, loop)
        if flags and orelse:
            orelse = [ast.copy_location(ast.If(_none_of(flags, node), orelse, []), orelse[0])]
        node.orelse = orelse

    def _loop(self, node: ast.For | ast.While, around: _Loop | None) -> list[ast.stmt]:
        self._loops += 1
        loop = _Loop(self._loops)
        breaks, skips, returns = (
            any(_leaves(s, ast.Break) for s in node.body),
            any(_leaves(s, ast.Continue) for s in node.body),
            any(_contains(s, ast.Return) for s in node.body),
        )
        orelse, node.orelse = node.orelse, []
        node.body = self.block(node.body, loop)
        out: list[ast.stmt] = []
        if skips:
            node.body.insert(0, _set(loop.skipped, ast.Constant(False), node))
        if breaks:
            out.append(_set(loop.broken, ast.Constant(False), node))
        stops = [*([loop.broken] if breaks else []), *([RETURNED] if returns else [])]
        if stops and isinstance(node, ast.While):
            node.test = ast.copy_location(ast.BoolOp(ast.And(), [_none_of(stops, node), node.test]), node.test)
        elif stops:
            node.wanted = _none_of(stops, node)  # type: ignore[union-attr]
        out.append(node)
        if orelse:
            rest = self.block(orelse, around)
            out += [ast.copy_location(ast.If(_none_of(stops, node), rest, []), orelse[0])] if stops else rest
        return out


def _set(name: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), at)


def _none_of(flags: list[str], at: ast.AST) -> ast.expr:
    tests: list[ast.expr] = [ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())) for flag in flags]
    return ast.copy_location(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests), at)
