"""Steps that are code in Python. A flow is part of the project, as its scripts are, and runs only where they run."""

import ast
from importlib import import_module

from . import _holdfast_errors as errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from ._holdfast_flow import Block

# What code of data flows may use without an import.
_IMPORTED = {"math": "math", "numbers": "numbers", "datetime": "datetime", "re": "re"}
_IMPORTED.update({"pd": "pandas", "np": "numpy", "sp": "scipy"})


class Row(dict):  # type: ignore[type-arg]
    """A row whose values are read as ``row.name`` or ``row["name"]``."""

    def __getattr__(self, name: "str") -> "object":
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def add_column(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    """A value for each row, by an expression with ``row`` or by a function ``newvalue(row)``."""
    name, prior = block.arguments.get("columnId"), block.arguments.get("priorColumnId")
    if not isinstance(name, str) or not isinstance(block.arguments.get("customExpression"), str):
        raise block.error("it has no columnId or no customExpression")
    compute = _function(block, "customExpression", "newvalue", "row")
    pandas = import_module("pandas")
    plain = frame[errors.names(frame)]
    values, problems = [], []
    for record in plain.to_dict("records"):
        try:
            values.append(compute(Row(record)))
        except Exception as problem:
            values.append(None)
            problems.append(problem)
    if problems and (len(problems) == len(values) or isinstance(problems[0], (NameError, AttributeError, KeyError))):
        text = block.arguments["customExpression"]
        raise block.error(f"the expression {text!r} failed: {problems[0]!r}") from problems[0]
    frame = frame.copy()
    result = pandas.Series(values, index=frame.index)
    position = list(frame.columns).index(prior) + 1 if prior in frame.columns else len(errors.names(frame))
    if name in frame.columns:
        frame[name] = result
    else:
        frame.insert(position, name, result)
    if problems:
        errors.mark(frame, name, result.isnull())
    return frame


def transform(frame: "pd.DataFrame", block: "Block") -> "pd.DataFrame":
    """The whole frame, by code with ``df`` or by a function ``transform(df)``."""
    if not isinstance(block.arguments.get("customBlock"), str):
        raise block.error("it has no customBlock")
    compute = _function(block, "customBlock", "transform", "df")
    try:
        result = compute(errors.without_marks(frame).copy())
    except Exception as problem:
        raise block.error(f"the code failed: {problem!r}") from problem
    if not isinstance(result, import_module("pandas").DataFrame):
        raise block.error(f"the code made a {type(result).__name__}, not a DataFrame; its last line is the result: df")
    return result


def _function(block: "Block", key: "str", name: "str", parameter: "str") -> "Callable[[object], object]":
    """The code as a function: the one that it defines, or one whose last line is the result."""
    text = str(block.arguments[key]).replace("\r\n", "\n").strip()
    try:
        tree = ast.parse(text, f"{block.file}:{block.line}")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        raise block.error(f"the code cannot be parsed: {problem}") from None
    variables = _modules(tree, block)
    variables["DataPrepError"] = type(block.error(""))
    last = tree.body[-1] if tree.body else None
    if any(isinstance(part, ast.FunctionDef) and part.name == name for part in tree.body):
        exec(compile(tree, f"{block.file}:{block.line}", "exec"), variables)
        return variables[name]  # type: ignore[return-value]
    if isinstance(last, ast.Expr):
        result = compile(ast.Expression(last.value), f"{block.file}:{block.line}", "eval")
        tree.body.pop()
    else:
        result = compile(parameter, f"{block.file}:{block.line}", "eval")
    first = compile(tree, f"{block.file}:{block.line}", "exec")

    def compute(value: "object") -> "object":
        variables[parameter] = value
        exec(first, variables)
        return eval(result, variables)

    return compute


def _modules(tree: "ast.AST", block: "Block") -> "dict[str, object]":
    """The modules that the code uses; scipy takes long to import, and need not be installed."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    try:
        return {short: import_module(name) for short, name in _IMPORTED.items() if short in used}
    except ImportError as problem:
        raise block.error(f"its code needs a package that is not installed: {problem}") from None
