"""What is sent for a cell of ``%%submit``: its source, the imports and definitions it uses, the chosen variables."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import keyword
import symtable
import sys
from typing import TYPE_CHECKING, Any

from holdfast.api import pickling, sending
from holdfast.errors import CannotSendError, UsageError
from holdfast.script_api import remote_call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NAME = "cell.py"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SETTERS = {"exec", "eval", "globals", "locals", "vars", "setattr"}  # may set variables that no statement names
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def files(
    source: str, namespace: Mapping[str, Any], send: Sequence[str], returns: Sequence[str], root: str
) -> dict[str, bytes]:
    """The files of the call, for the snapshot of its run. ``namespace`` has the notebook's variables."""
    missing = [name for name in send if name not in namespace]
    if missing:
        raise UsageError(f"--send: the notebook has no variable {', '.join(missing)}")
    _check_returns(source, send, returns)
    used = {name: namespace[name] for name in used_names(source) if name in namespace}
    imports = {name: value.__name__ for name, value in used.items() if inspect.ismodule(value)}
    definitions = {name: value for name, value in used.items() if _is_definition(value)}
    unsent = sorted(set(used) - set(imports) - set(definitions) - set(send))
    if unsent:
        what = f"the cell uses variables of the notebook that are not sent: {', '.join(unsent)}"
        raise UsageError(what, hint=f"%%submit --send {','.join([*send, *unsent])}")
    variables = {**definitions, **{name: namespace[name] for name in send}}
    call: dict[str, Any] = {"v": 1, "kind": "cell", "name": "cell", "allow_pickle": False}
    call.update(path=sending.import_paths(root), imports=imports, returns=list(returns))
    parts = {"cell_source.py": source.encode()}
    parts["arguments.pickle"], is_by_value = _pickled(variables, root)
    if is_by_value:
        call["python"] = list(sys.version_info[:2])
        parts["cloudpickle.zip"] = sending.cloudpickle_source()
    parts["call.json"] = json.dumps(call).encode()
    with open(remote_call.__file__, "rb") as program:
        parts[NAME] = program.read()
    return {f"{sending.FOLDER}/{name}": content for name, content in parts.items()}


def check(source: str) -> None:
    """A cell that is not Python would fail on the target only."""
    hint = "magics and ! commands work in this notebook only"
    try:
        tree = ast.parse(source)
        hint = "await, yield and return work in functions only; asyncio.run(...) runs an async function"
        compile(tree, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        what = "the cell cannot be submitted: it is not plain Python"
        raise UsageError(what, answer=f"line {error.lineno}: {error.msg}", hint=hint) from error


def _check_returns(source: str, send: Sequence[str], returns: Sequence[str]) -> None:
    """A mistyped name would be noticed when the cell has run, perhaps for hours."""
    odd = [name for name in returns if not name.isidentifier() or keyword.iskeyword(name)]
    if odd:
        raise UsageError(f"--get: {', '.join(map(repr, odd))} is not the name of a variable", hint="%%submit --get a,b")
    tables = [symtable.symtable(source, "cell", "exec")]
    tables += _inner(tables[0].get_children())
    symbols = [symbol for table in tables for symbol in table.get_symbols() if table is tables[0] or symbol.is_global()]
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(ast.parse(source)))
    if stars or _SETTERS & {symbol.get_name() for symbol in symbols if symbol.is_referenced()}:
        return
    known = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()} | set(send)
    missing = [name for name in returns if name not in known]
    if missing:
        what = f"--get: the cell sets no variable {', '.join(missing)}"
        raise UsageError(what, hint="give it a value in the cell, or correct the name")


def used_names(source: str) -> set[str]:
    """Names that the cell takes from elsewhere: not its own variables, imports and definitions."""
    top = symtable.symtable(source, "cell", "exec")
    own = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    names = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_referenced()}
    for table in _inner(top.get_children()):
        names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return (names - own - set(dir(builtins))) | (own & set(_read_first(ast.parse(source), set())))


def _read_first(node: ast.AST, assigned: set[str]) -> Iterator[str]:
    """Names that a cell reads before it gives them a value, as in ``df = df.dropna()``; all branches are executed."""
    if isinstance(node, _COMPREHENSIONS):
        names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
        yield from {name.id for name in names} - assigned - {n.id for n in names if isinstance(n.ctx, ast.Store)}
        return
    read = node.target if isinstance(node, ast.AugAssign) else node
    if isinstance(read, ast.Name) and (read is not node or isinstance(read.ctx, ast.Load)) and read.id not in assigned:
        yield read.id
    assigned.add(_bound(node))
    for part in _in_order(node):
        yield from _read_first(part, assigned)


def _in_order(node: ast.AST) -> Iterable[ast.AST]:
    """The parts of a statement or an expression as they are evaluated; bodies of functions are left out."""
    if isinstance(node, ast.Assign):
        return [node.value, *node.targets]
    if isinstance(node, (ast.AugAssign, ast.NamedExpr, ast.AnnAssign)):
        return [] if node.value is None else [node.value, node.target]
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.iter, node.target, *node.body, *node.orelse]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return node.decorator_list
    return [] if isinstance(node, ast.Lambda) else ast.iter_child_nodes(node)


def _bound(node: ast.AST) -> str:
    """The name that gets a value."""
    if isinstance(node, ast.Name):
        return "" if isinstance(node.ctx, ast.Load) else node.id
    if isinstance(node, ast.alias):
        return (node.asname or node.name).partition(".")[0]
    return str(getattr(node, "name", "")) if isinstance(node, _NAMED) else ""


def _inner(tables: Iterable[symtable.SymbolTable]) -> Iterable[symtable.SymbolTable]:
    for table in tables:
        yield table
        yield from _inner(table.get_children())


def _is_definition(value: object) -> bool:
    return inspect.isroutine(value) or inspect.isclass(value) or isinstance(value, pickling.InPlaceFunction)


def _is_of_notebook(value: object) -> bool:
    return getattr(value if _is_definition(value) else type(value), "__module__", None) in pickling.MAINS


def _pickled(variables: Mapping[str, Any], root: str) -> tuple[bytes, bool]:
    """The pickle, and whether it takes cloudpickle to read it."""
    has_cloudpickle = pickling.cloudpickle_module() is not None
    names = sorted(name for name, value in variables.items() if _is_of_notebook(value))
    if names and not has_cloudpickle:
        what = f"{', '.join(names)} is defined in the notebook, and cloudpickle is not installed"
        hint = f"move it to a module of the project, or: {sending.INSTALL}"
        raise CannotSendError(what, hint=hint)
    try:
        return sending.pickled(((), dict(variables)), root)
    except Exception as error:
        dumps = sending.dumps_by_value(root) if has_cloudpickle else pickling.plain_dumps
        culprits = (sending.unsendable(value, name, dumps, 0) for name, value in variables.items())
        culprit = next(filter(None, culprits), "a variable")
        hint = "send what it is made from, and create it in the cell"
        raise CannotSendError(f"{culprit} cannot be sent", answer=sending.error_text(error), hint=hint) from error
