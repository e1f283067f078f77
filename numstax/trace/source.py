"""A user's function -> code in which loops and branches call operators, so that they can be traced.

A Python function enters; a code object with the same parameters, free variables, file and line numbers leaves, or None
where there is nothing to rewrite or no source to be had.  The code calls the operators (see `control`) on the global
name ``__control__``::

    if_(condition, then, orelse, get, set, names)      branches assign the variables `names` through nonlocal
    while_(test, body, get, set, names)
    for_(iterable, body, more, get, set, names)        body(item); more: None, or is another iteration wanted?
    if_exp(condition, then, orelse), and_(*thunks), or_(*thunks), not_(value), compare(operators, *thunks)
    original(value)                                    of what ``is`` compares
    caught()                                           an ``except`` clause begins
    begins(), raised(), ends()                         at the body of a ``with``: before, on an exception, after it
    truth(value)                                       of what is joined in a condition, whose value does not matter
    asserted(value)                                    of what an ``assert`` tests
    unbound(name)                                      what a variable holds that is not assigned

`names` are the variables that a statement may assign and that are read afterwards or by its next iteration; variables
that it alone uses stay its own.
"""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import re
import textwrap
import types
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

from numstax.trace.source_jumps import has_jump, has_walrus, without_jumps
from numstax.trace.source_names import assigned, changed_inside, closed_over, live_before

CONTROL = "__control__"
_THUNK = "thunk_"
"""The parameter by which lambdas that are made here are known."""
_LEFT_ALONE = (ast.Global, ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.TryStar)
"""A function with one of these runs as it is."""
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_OPERATORS = (dis.opmap.get("UNARY_NOT"), dis.opmap.get("IS_OP"))
Node = TypeVar("Node", bound=ast.AST)


def rewrite(function: types.FunctionType) -> types.CodeType | None:
    """The code to trace instead of the function's own; None: the function runs as it is."""
    return _rewritten(function.__code__)


@lru_cache(maxsize=4096)
def _rewritten(code: types.CodeType) -> types.CodeType | None:
    if not _branches(code):
        return None
    node = _parsed(code)
    if node is None or any(map(_is_left_alone, ast.walk(node))) or _has_private_names(node):
        return None
    errors = {n.name for n in ast.walk(node) if isinstance(n, ast.ExceptHandler)}
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if errors & (stored | _parameters(node.args)):
        return None  # the name of an exception ends with its handler
    body: list[ast.stmt] = (
        node.body if isinstance(node, ast.FunctionDef) else [ast.copy_location(ast.Return(node.body), node.body)]
    )
    made = ast.FunctionDef(code.co_name, node.args, _Function(body, node.args).rewritten(), [], None)
    new = _compiled(ast.copy_location(made, node), code)
    return new if new.co_freevars == code.co_freevars else None  # other where code that is never reached reads one


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Try) and any(map(has_jump, node.finalbody)):
        return True  # the jump drops the exception under way
    becomes_function = isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda, *_COMPREHENSIONS)) or (
        isinstance(node, ast.Compare) and len(node.ops) > 1
    )
    return isinstance(node, _LEFT_ALONE) or (becomes_function and has_walrus(node))


def _branches(code: types.CodeType) -> bool:
    """Is there a jump in the code, a ``not`` or an ``is``, or in that of a function inside?"""
    instructions = code.co_code[::2]
    if any(op in _JUMPS or op in _OPERATORS for op in instructions):
        return True
    return any(_branches(inner) for inner in code.co_consts if isinstance(inner, types.CodeType))


def _parsed(code: types.CodeType) -> ast.FunctionDef | ast.Lambda | None:
    """The syntax tree of the function, at its lines in the file; None where the source is not that of the code."""
    try:
        lines, start = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError, IndentationError, IndexError):
        return None
    ast.increment_lineno(tree, start - 1 if start else 0)
    wanted = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    found = [n for n in ast.walk(tree) if isinstance(n, wanted) and _is_of(n, code)]
    return found[0] if len(found) == 1 else None


def _is_of(node: ast.FunctionDef | ast.Lambda, code: types.CodeType) -> bool:
    """Does this syntax make that code?  Compared by names, parameters and lines; instructions depend on the imports of
    the module too."""
    if isinstance(node, ast.FunctionDef) and node.name != code.co_name:
        return False
    names = (*code.co_freevars, *(["__class__"] if "__class__" in code.co_freevars else []))
    try:
        fresh = _inner(_module(_plain(node), names, "<compare>", code), code.co_name)
    except (SyntaxError, StopIteration):
        return False
    return _features(fresh) == _features(code)


def _features(code: types.CodeType) -> tuple[object, ...]:
    lines = {line for _, _, line in code.co_lines() if line is not None and line > code.co_firstlineno}
    return code.co_varnames, code.co_names, code.co_cellvars, code.co_freevars, lines


def _plain(node: ast.FunctionDef | ast.Lambda) -> ast.stmt:
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Expr(node), node)
    bare = ast.FunctionDef(node.name, _without_annotations(node.args), node.body, [], None)
    return ast.copy_location(bare, node)


def _without_annotations(args: ast.arguments) -> ast.arguments:
    def bare(arg: ast.arg | None) -> ast.arg | None:
        return None if arg is None else ast.copy_location(ast.arg(arg.arg), arg)

    positional, plain, words = ([bare(a) for a in group] for group in (args.posonlyargs, args.args, args.kwonlyargs))
    defaults: list[ast.expr] = [ast.copy_location(ast.Constant(None), d) for d in args.defaults]
    word_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in args.kw_defaults]
    return ast.arguments(positional, plain, bare(args.vararg), words, word_defaults, bare(args.kwarg), defaults)  # type: ignore[arg-type]


def _parameters(args: ast.arguments) -> frozenset[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return frozenset(a.arg for a in every if a is not None)


def _has_private_names(node: ast.AST) -> bool:
    """Names that a class around the function mangles."""
    names = [
        n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute)
    ]
    return any(name.startswith("__") and not name.endswith("__") for name in names)


# --- compiling ----------------------------------------------------------------------------------------


def _module(function: ast.stmt, free: tuple[str, ...], file: str, code: types.CodeType) -> types.CodeType:
    """The function inside another whose variables are its free variables, with the meaning of annotations of `code`."""
    outside = [_parse(f"{name} = None", function) for name in free]
    factory = _parse("def factory(): pass", function)
    assert isinstance(factory, ast.FunctionDef)
    factory.body = [*outside, function]
    flags = code.co_flags & __future__.annotations.compiler_flag
    return compile(ast.fix_missing_locations(ast.Module([factory], [])), file, "exec", flags, dont_inherit=True)


def _inner(module: types.CodeType, name: str) -> types.CodeType:
    factory = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in factory.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


def _compiled(function: ast.FunctionDef, code: types.CodeType) -> types.CodeType:
    function.args = _without_annotations(function.args)
    made = _inner(_module(function, code.co_freevars, code.co_filename, code), code.co_name)
    return _named(made, code).replace(co_firstlineno=code.co_firstlineno)


def _named(made: types.CodeType, written: types.CodeType) -> types.CodeType:
    """Blocks that became functions have the name of the function they were in, for errors and tracebacks."""
    consts = tuple(
        _named(c, written if _is_block(c) else c) if isinstance(c, types.CodeType) else c for c in made.co_consts
    )
    return made.replace(co_consts=consts, co_name=written.co_name, co_qualname=written.co_qualname)


def _is_block(code: types.CodeType) -> bool:
    is_thunk = code.co_name == "<lambda>" and code.co_varnames[:1] == (_THUNK,)
    return is_thunk or re.fullmatch(r"(then|orelse|test|body|more|get|set)_\d+_", code.co_name) is not None


# --- statements ---------------------------------------------------------------------------------------


class _Function:
    """Rewrites the body of one function."""

    def __init__(self, body: list[ast.stmt], args: ast.arguments) -> None:
        self._body = without_jumps(body)
        self._parameters = _parameters(args)
        self._first = next((a.arg for a in (*args.posonlyargs, *args.args)), "")
        self._changed = changed_inside(self._body)
        """Variables that functions inside assign: at any time."""
        self._shared = closed_over(self._body) | self._changed
        """Variables that functions inside use: read at any time."""
        self._late = frozenset[str]()
        """Variables that are read after an exception."""
        self._count = 0
        self._undefined: set[str] = set()

    def rewritten(self) -> list[ast.stmt]:
        body = self._statements(self._body, frozenset(self._shared))
        outer = {name for s in self._body if isinstance(s, ast.Nonlocal) for name in s.names}
        unbound = sorted(self._undefined - self._parameters - outer)
        first = self._body[0]
        head = [_parse(f"{name} = {CONTROL}.unbound({name!r})", first) for name in unbound]
        return [*head, *body]

    def _statements(self, body: list[ast.stmt], after: frozenset[str]) -> list[ast.stmt]:
        """`after` : the variables read after these statements."""
        out: list[ast.stmt] = []
        for statement in reversed(body):
            after |= self._late
            out[:0] = self._statement(statement, after)
            after = live_before([statement], after)
        return out

    def _statement(self, node: ast.stmt, after: frozenset[str]) -> list[ast.stmt]:
        if isinstance(node, ast.FunctionDef):
            inner = _Function(node.body, node.args).rewritten()
            made = ast.FunctionDef(node.name, self._expressions(node.args), inner, node.decorator_list, None)
            return [ast.copy_location(made, node)]
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            return [node]
        if isinstance(node, ast.If):
            return self._if(node, after)
        if isinstance(node, ast.While):
            return self._while(node, after)
        if isinstance(node, ast.For):
            return self._for(node, after)
        if isinstance(node, ast.With):
            return self._with(node, after)
        if isinstance(node, ast.Try):
            return self._try(node, after)
        if isinstance(node, ast.Match):
            cases = [
                ast.match_case(c.pattern, c.guard and self._test(c.guard), self._statements(c.body, after))
                for c in node.cases
            ]
            return [ast.copy_location(ast.Match(self._expressions(node.subject), cases), node)]
        if isinstance(node, ast.Delete):
            return [self._deleted(target) for target in node.targets]
        return [self._expressions(node)]

    def _with(self, node: ast.With, after: frozenset[str]) -> list[ast.stmt]:
        """What is around the body may suppress exceptions, but not those of tracing."""
        items = [self._expressions(i) for i in node.items]
        noted = _located(ast.ExceptHandler(None, None, [_parse(f"{CONTROL}.raised()", node), ast.Raise()]), node)
        body = [_parse(f"{CONTROL}.begins()", node), *self._stoppable(node.body, after, after)]
        made = ast.With(items, [_located(ast.Try(body, [noted], [], []), node)])
        return [ast.copy_location(made, node), _parse(f"{CONTROL}.ends()", node)]

    def _deleted(self, target: ast.expr) -> ast.stmt:
        if isinstance(target, ast.Name):
            return _parse(f"{target.id} = {CONTROL}.unbound({target.id!r})", target)
        return ast.copy_location(ast.Delete([self._expressions(target)]), target)

    def _try(self, node: ast.Try, after: frozenset[str]) -> list[ast.stmt]:
        final = live_before(node.finalbody, after)
        handled = final.union(*(live_before(h.body, final) for h in node.handlers))
        body = self._stoppable(node.body, live_before(node.orelse, final), handled)
        handlers = [
            ast.copy_location(
                ast.ExceptHandler(
                    h.type, h.name, [_parse(f"{CONTROL}.caught()", h), *self._stoppable(h.body, final, final)]
                ),
                h,
            )
            for h in node.handlers
        ]
        orelse = self._stoppable(node.orelse, final, final)
        made = ast.Try(body, handlers, orelse, self._statements(node.finalbody, after))
        return [ast.copy_location(made, node)]

    def _stoppable(self, body: list[ast.stmt], after: frozenset[str], late: frozenset[str]) -> list[ast.stmt]:
        """Statements that an exception may stop anywhere: then `late` are the variables read next."""
        around, self._late = self._late, self._late | late
        try:
            return self._statements(body, after)
        finally:
            self._late = around

    def _if(self, node: ast.If, after: frozenset[str]) -> list[ast.stmt]:
        every = assigned(node.body) | assigned(node.orelse) | self._changed
        before = live_before(node.body, after) | live_before(node.orelse, after)
        names = self._names(every & (after | before | self._shared))
        then, orelse = self._fresh("then"), self._fresh("orelse")
        made = [
            self._function(then, [], node.body, names, after, node),
            self._function(orelse, [], node.orelse or [ast.copy_location(ast.Pass(), node)], names, after, node),
        ]
        return [*made, *self._call("if_", [self._test(node.test), _name(then), _name(orelse)], names, node)]

    def _while(self, node: ast.While, after: frozenset[str]) -> list[ast.stmt]:
        again = live_before([node], after)
        names = self._names((assigned(node.body) | self._changed) & (again | after | self._shared))
        test, body = self._fresh("test"), self._fresh("body")
        asked: list[ast.stmt] = [ast.copy_location(ast.Return(self._test(node.test)), node.test)]
        made = [
            _located(ast.FunctionDef(test, _arguments([]), asked, [], None), node),
            self._function(body, [], node.body, names, again, node),
        ]
        return [*made, *self._call("while_", [_name(test), _name(body)], names, node)]

    def _for(self, node: ast.For, after: frozenset[str]) -> list[ast.stmt]:
        again = live_before([node], after)
        target = ast.copy_location(ast.Assign([node.target], _name("item_")), node.target)
        every = assigned(node.body) | assigned([target]) | self._changed
        names = self._names(every & (again | after | self._shared))
        body = self._fresh("body")
        made: list[ast.stmt] = [self._function(body, ["item_"], [target, *node.body], names, again, node)]
        more: ast.expr = ast.Constant(None)
        wanted = getattr(node, "wanted", None)
        if wanted is not None:
            name = self._fresh("more")
            asked: list[ast.stmt] = [ast.Return(self._test(wanted))]
            made.append(_located(ast.FunctionDef(name, _arguments([]), asked, [], None), node))
            more = _name(name)
        return [*made, *self._call("for_", [self._expressions(node.iter), _name(body), more], names, node)]

    # --- parts

    def _expressions(self, node: Node) -> Node:
        changed: Node = _Expressions(self._first).visit(node)
        return changed

    def _test(self, node: ast.expr) -> ast.expr:
        return _Expressions(self._first).test(node)

    def _names(self, names: frozenset[str]) -> list[str]:
        self._undefined |= names
        return sorted(names)

    def _fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self._count}_"

    def _function(
        self, name: str, args: list[str], body: list[ast.stmt], names: list[str], after: frozenset[str], at: ast.stmt
    ) -> ast.stmt:
        inner = self._statements(body, after)
        head: list[ast.stmt] = [_located(ast.Nonlocal(list(names)), at)] if names else []
        return _located(ast.FunctionDef(name, _arguments(args), [*head, *inner], [], None), at)

    def _call(self, operator: str, args: list[ast.expr], names: list[str], at: ast.stmt) -> list[ast.stmt]:
        get, put = self._fresh("get"), self._fresh("set")
        listed = "".join(f"{name}, " for name in names)
        write = f"nonlocal {', '.join(names)}; {listed} = values_" if names else "pass"
        call = _operator(operator, [*args, _name(get), _name(put), _constants(names)])
        return [
            _parse(f"def {get}(): return ({listed})", at),
            _parse(f"def {put}(values_): {write}", at),
            _located(ast.Expr(_located(call, at)), at),
        ]


# --- expressions --------------------------------------------------------------------------------------


class _Expressions(ast.NodeTransformer):
    """Conditional expressions, ``and``, ``or``, ``not`` and chained comparisons as operators.  `first` : the name of
    the function's first parameter."""

    def __init__(self, first: str) -> None:
        self._first = first

    def test(self, node: ast.expr) -> ast.expr:
        """A condition: values that ``and`` and ``or`` join need not be alike."""
        if not isinstance(node, ast.BoolOp):
            return self.visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _located(_operator(name, [_thunk(self._truth(v)) for v in node.values]), node)

    def _truth(self, node: ast.expr) -> ast.expr:
        made = self.test(node)
        is_truth = isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        return made if is_truth else _located(_operator("truth", [made]), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        parts = [self.test(node.test), _thunk(self.visit(node.body)), _thunk(self.visit(node.orelse))]
        return _located(_operator("if_exp", parts), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _located(_operator(name, [_thunk(self.visit(v)) for v in node.values]), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return _located(_operator("not_", [self.test(node.operand)]), node)
        return ast.copy_location(ast.UnaryOp(node.op, self.visit(node.operand)), node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [self.visit(v) for v in (node.left, *node.comparators)]
        if len(node.ops) == 1:
            if isinstance(node.ops[0], ast.Is | ast.IsNot) and not any(isinstance(v, ast.Constant) for v in operands):
                operands = [_located(_operator("original", [v]), v) for v in operands]
            return ast.copy_location(ast.Compare(operands[0], node.ops, operands[1:]), node)
        signs = _constants(type(op).__name__ for op in node.ops)
        return _located(_operator("compare", [signs, *map(_thunk, operands)]), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        test = _located(_operator("asserted", [self.test(node.test)]), node.test)
        return ast.copy_location(ast.Assert(test, node.msg and self.visit(node.msg)), node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """``super()`` finds its arguments in the function it stands in, which may be one of those made here."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self._first:
            node.args = [_name("__class__"), _name(self._first)]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node


def _thunk(value: ast.expr) -> ast.expr:
    none = ast.arguments([], [], ast.arg(_THUNK), [], [], None, [])
    return ast.copy_location(ast.Lambda(none, value), value)


def _operator(name: str, args: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Attribute(_name(CONTROL), name, ast.Load()), args, [])


def _constants(values: Iterable[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(v) for v in values], ast.Load())


def _name(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _arguments(names: list[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])


def _parse(text: str, at: ast.AST) -> ast.stmt:
    made = ast.parse(text).body[0]
    for node in ast.walk(made):
        ast.copy_location(node, at)
    return made


def _located(node: Node, at: ast.AST) -> Node:
    """`node` at the first line of `at` (Python has the call of a method at its last line); what is new inside gets it
    when the module is compiled."""
    made: Any = ast.copy_location(node, at)
    if hasattr(made, "lineno"):
        made.end_lineno, made.end_col_offset = made.lineno, made.col_offset
    return made
