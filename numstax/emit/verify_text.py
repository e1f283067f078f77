"""Is every name in the text of a program assigned wherever it is read?

A Program enters; nothing leaves, or a VerifyError that names the line.  The compiler does not ask: it would read
whatever happens to be there.  What a loop assigns counts as assigned after it only where the loop says so in its test;
what both sides of a branch assign counts after it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from numstax.errors import VerifyError
from numstax.program import Program


def verify_text(program: Program) -> None:
    """Raises VerifyError for a name that is read where it may not have been assigned."""
    tree = ast.parse(program.text)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            own = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            _Reader(program, own).block(function.body, set())


class _Reader:
    """`own` : the names that the function assigns; others are parameters or come from outside."""

    def __init__(self, program: Program, own: set[str]) -> None:
        self.program, self.own = program, own

    def block(self, statements: Sequence[ast.stmt], known: set[str]) -> set[str] | None:
        """The names assigned after the statements, those in `known` before; None where control does not get there."""
        known = set(known)
        for statement in statements:
            after = self.statement(statement, known)
            if after is None:
                return None
            known = after
        return known

    def statement(self, node: ast.stmt, known: set[str]) -> set[str] | None:
        match node:
            case ast.Return() | ast.Break() | ast.Continue():
                self.read(node, known)
                return None
            case ast.If():
                self.read(node.test, known)
                sides = [self.block(node.body, known), self.block(node.orelse, known)]
                ends = [side for side in sides if side is not None]
                return set.intersection(*ends) if ends else None
            case ast.For():
                self.read(node.iter, known)
                self.block(node.body, known | _stored(node.target))
                return known
            case ast.While():
                self.read(node.test, known)
                self.block(node.body, known)
                return known
        self.read(node, known)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.check(node.target, known)
        return known | _stored(node)

    def read(self, node: ast.AST, known: set[str]) -> None:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load):
                self.check(name, known)

    def check(self, name: ast.Name, known: set[str]) -> None:
        if name.id in self.own and name.id not in known:
            line = self.program.text.splitlines()[name.lineno - 1].strip()
            raise VerifyError(f"{self.program.name}, line {name.lineno}: {name.id} may have no value in `{line}`")


def _stored(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
