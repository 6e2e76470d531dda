"""Mutants of the pure modules: which there are, which of them a seed draws, and the source of each.

A mutant is a module with one small mistake in it: ``<`` becomes ``<=``, 5 becomes 6, ``and`` becomes ``or``. The
mistakes are the operators of cosmic-ray. A mutant exists only in memory; no file is ever changed.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[2] / "src" / "holdfast"
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.txt")
# Modules whose functions compute a result from their arguments. What they need of files and processes, if anything, is
# in a few functions at their edge, so that unit tests can call them a thousand times a second.
PURE = (
    # files of a project, parsed and checked
    "amlconfig/compute.py",
    "amlconfig/data_entries.py",
    "amlconfig/dependencies.py",
    "amlconfig/docker_arguments.py",
    "amlconfig/edit.py",
    "amlconfig/emit.py",
    "amlconfig/findings.py",
    "amlconfig/flow.py",
    "amlconfig/form.py",
    "amlconfig/full.py",
    "amlconfig/nodes.py",
    "amlconfig/plain.py",
    "amlconfig/runconfig.py",
    "amlconfig/source.py",
    "amlconfig/spark_address.py",
    "amlconfig/successor.py",
    "environments/conda.py",
    "environments/edits.py",
    "environments/gpu.py",
    "environments/lock.py",
    "environments/matchspec.py",
    "environments/pip.py",
    "environments/pyproject.py",
    "environments/requirement.py",
    "environments/revival/gpu_frameworks.py",
    "environments/revival/retired.py",
    "environments/secrets.py",
    "environments/spark.py",
    "environments/spark_pins.py",
    "environments/spec.py",
    "environments/versions.py",
    "environments/wheels.py",
    "snapshot/ignore.py",
    "runner/ignore_patterns.py",
    "runner/wildmatch.py",
    # names, quantities and arguments
    "image_names.py",
    "kinds.py",
    "labels.py",
    "lifecycle.py",
    "parameters.py",
    "planning.py",
    "quantities.py",
    "redact.py",
    "store/archive_names.py",
    "store/where/fields.py",
    "store/where/grammar.py",
    "store/where/sql.py",
    "store/where/tokens.py",
    # what a target sends, and what is sent to it
    "answers.py",
    "runner/container/argv.py",
    "runner/decoding.py",
    "runner/gpu/gpu_model.py",
    "runner/gpu/matching.py",
    "runner/gpu/probe_verdict.py",
    "runner/gpu/receipt.py",
    "runner/json_text.py",
    "runner/plan.py",
    "runner/run/outcome.py",
    "runner/untrusted.py",
    # what a person sees of runs
    "advice/gpu_doctor.py",
    "advice/script_source.py",
    "metrics/direction.py",
    "metrics/downsample.py",
    "metrics/lines.py",
    "metrics/resumed.py",
    "metrics/values.py",
    "present/csv_table.py",
    "present/drawing/axes.py",
    "present/drawing/curves.py",
    "present/drawing/svg.py",
    "present/gpu_receipt.py",
    "present/gpu_verdict.py",
    "present/jmespath_query.py",
    "present/metric_chart.py",
    "present/run_table.py",
    "present/terminal.py",
    "present/terminal_plot.py",
)


_FOR_TYPE_CHECKERS = ("TYPE_CHECKING", "MYPY")


class _ReplaceIn:
    """``in`` for ``not in`` and the reverse, which cosmic-ray does not have."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        if node.type == "comparison":
            yield from ((node.children[at].start_pos, node.children[at].end_pos) for at in self._places(node))

    def mutate(self, node: Any, index: int) -> Any:
        at = self._places(node)[index]
        node.children[at] = get_ast(" in" if "not" in node.children[at].get_code() else " not in")
        return node

    @staticmethod
    def _places(node: Any) -> list[int]:
        return [at for at, child in enumerate(node.children) if at % 2 and child.get_code().split()[-1] == "in"]


def _operators() -> dict[str, Any]:
    """Without those that put ``is`` for ``==``: whether that differs depends on what the interpreter shares."""
    provider = OperatorProvider()
    names = [name for name in provider if not provider[name].arguments() and "Comparison" not in name]
    names += [
        name
        for name in provider
        if "Comparison" in name and ("Is" not in name.split("_", 1)[1] or name.endswith(("_Is_IsNot", "_IsNot_Is")))
    ]
    return {**{name: provider[name]() for name in sorted(names)}, "ReplaceIn": _ReplaceIn()}


OPERATORS = _operators()


class Mutant(NamedTuple):
    module: str  # its path below the package
    operator: str
    occurrence: int  # of the operator in the module
    line: int
    column: int

    def original(self) -> str:
        return (PACKAGE / self.module).read_text()

    def line_text(self) -> str:
        return self.original().splitlines()[self.line - 1].strip()

    def source(self) -> str:
        mutated = mutate_code(self.original(), OPERATORS[self.operator], self.occurrence)
        assert mutated is not None, self
        return str(mutated)

    def compiles(self) -> bool:
        """A few do not: operators also replace the ``*`` before keyword-only parameters, and fail at ``except a.b``."""
        try:
            ast.parse(self.source())
        except (SyntaxError, AttributeError):
            return False
        return True

    def change(self) -> str:
        """The mutant as ``equivalent_mutants.txt`` has it: what stays the same when lines are added elsewhere."""
        old, new = self.original().splitlines(), self.source().splitlines()
        lines = [
            f"{line[0]} {line[1:].strip()}"
            for line in difflib.unified_diff(old, new, n=0, lineterm="")
            if line[0] in "+-" and line[:3] not in ("+++", "---")
        ]
        return "\n".join([f"{self.module} {_definition(ast.parse(chr(10).join(old)), self.line)}", *lines])


def mutants(module: str) -> Iterator[Mutant]:
    source = (PACKAGE / module).read_text()
    nodes = list(ast_nodes(get_ast(source)))
    without_effect = _without_effect(ast.parse(source))
    for name, operator in OPERATORS.items():
        positions = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (line, column) in enumerate(positions):
            if not any(begin <= (line, column) < end for begin, end in without_effect):
                yield Mutant(module, name, occurrence, line, column)


def sample(seed: int, size: int) -> list[Mutant]:
    """One mutant at each of so many places in the code.

    Places are drawn first, because one ``+`` has eleven mutants, most of which fail at once, and one ``and`` has one.
    """
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for module in PURE:
        for mutant in mutants(module):
            places.setdefault((module, mutant.line, mutant.column), []).append(mutant)
    draw = random.Random(seed)
    order = draw.sample(sorted(places), len(places))
    drawn = (draw.choice(places[place]) for place in order)
    return list(itertools.islice((mutant for mutant in drawn if mutant.compiles()), size))


def equivalents() -> dict[str, str]:
    """The reason of each listed mutant, by its change."""
    found = {}
    for block in EQUIVALENT.read_text().split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            reason = " ".join(line[2:] for line in lines if line.startswith("= "))
            found["\n".join(line for line in lines if not line.startswith("= "))] = reason
    return found


def statement_lines(module: str, line: int) -> range | None:
    """The lines of the statement at this line, without those of its body; ``None`` where it runs at import."""
    tree = ast.parse((PACKAGE / module).read_text())
    best: tuple[int, int] | None = None
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                if isinstance(node, (ast.stmt, ast.expr)) and node is not function:
                    begin, end = _head(node)
                    in_body = begin >= (
                        function.lineno if isinstance(function, ast.Lambda) else function.body[0].lineno
                    )
                    if in_body and begin <= line <= end and isinstance(node, ast.stmt):
                        best = (begin, end) if best is None or end - begin < best[1] - best[0] else best
    return None if best is None else range(best[0], best[1] + 1)


def _head(node: ast.stmt | ast.expr) -> tuple[int, int]:
    body = getattr(node, "body", None)
    end = node.end_lineno or node.lineno
    return node.lineno, max(node.lineno, body[0].lineno - 1) if isinstance(body, list) else end


def _definition(tree: ast.Module, line: int) -> str:
    """The names of the classes and functions around a line."""
    names: list[str] = []
    inner: list[ast.stmt] = tree.body
    while True:
        for node in inner:
            first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and first <= line <= (node.end_lineno or 0):
                names.append(node.name)
                inner = node.body
                break
        else:
            return ".".join(names) or "(module)"


def _without_effect(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Parts of the source that no result depends on.

    Annotations and what only type checkers read are not executed; ``strict=True`` of zip is an assertion about two
    lists of the same length; a cache makes a function quicker; defaults of ``getattr(os, ...)`` are for other systems.
    """
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in _FOR_TYPE_CHECKERS:
            found.append(node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in _FOR_TYPE_CHECKERS:
            found.append(node)
        if isinstance(node, ast.keyword) and node.arg == "strict":
            found.append(node)
        if isinstance(node, ast.Call) and ast.unparse(node).startswith("getattr(os, "):
            found += node.args[2:]
        if isinstance(node, ast.FunctionDef):
            found += [part for part in node.decorator_list if ast.unparse(part).startswith("lru_cache")]
        found += [part for part in (getattr(node, "annotation", None), getattr(node, "returns", None)) if part]
    return [
        ((part.lineno, part.col_offset - 1), (part.end_lineno, part.end_col_offset))  # type: ignore[attr-defined]
        for part in found
    ]
