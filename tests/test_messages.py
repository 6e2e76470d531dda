"""No branch depends on the wording of a message: code compares types and codes, so that texts can be improved."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import answers, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Desk

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
# Attributes of our own errors and results that hold text for people.
TEXTS = {"what", "answer", "hint", "reason", "why", "evidence", "message"}
METHODS = {"startswith", "endswith", "find", "index", "count", "partition", "split", "removeprefix", "removesuffix"}
SENTENCE = re.compile(r"[A-Za-z,;:'] [A-Za-z]")
# Modules that read the messages of another program, or a file format whose marks are several words.
FOREIGN = {
    "script_api/spark/packages.py": "Ivy's messages",
    "script_api/spark/record.py": "messages of Spark and Java",
    "amlconfig/full.py": "ruamel.yaml's messages",
    "builder/conda.py": "the solver's messages",
    "builder/failure.py": "uv's messages",
    "builder/installing.py": "uv's messages",
    "environments/pyproject.py": "messages of the TOML reader",
    "engine/revival/fixes.py": "import statements of scripts",
    "engine/runs/path_shims.py": "a mark in files that we wrote",
    "hosts/openssh.py": "ssh's messages",
    "present/failure_cause.py": "messages of Python and of shells",
    "present/gpu_card.py": "titles of columns",
    "present/missing_library.py": "the dynamic linker's message",
    "present/missing_module.py": "messages of Python",
    "runner/machine/environment_damage.py": "messages of Python and of the dynamic linker",
    "runner/machine/build_failure.py": "uv's messages",
    "runner/container/engines.py": "Docker's and Podman's messages",
    "runner/container/image_build.py": "Docker's and Podman's messages",
    "runner/container/images.py": "Docker's and Podman's messages",
    "runner/gpu/nvidia_smi.py": "nvidia-smi's messages",
    "runner/run/printed_metrics.py": "lines that scripts print",
    "runner/run/waiting.py": "the first bytes of a file",
    "snapshot/ignore.py": "the first line of a private key",
    "snapshot/stat_cache.py": "the first bytes of a file",
    "store/mlflow_reader.py": "SQL in MLflow's database",
}


def test_no_branch_compares_message_texts() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        lines = list(comparisons(path.read_text(encoding="utf-8")))
        if lines and name not in FOREIGN:
            found[name] = lines
    assert found == {}


def test_every_exception_to_the_rule_is_still_needed() -> None:
    idle = [name for name in FOREIGN if not list(comparisons((PACKAGE / name).read_text(encoding="utf-8")))]
    assert idle == []


@pytest.mark.parametrize(
    "source",
    [
        'if error.what == "gone": pass',
        'if "gone" in error.answer: pass',
        'if error.hint.startswith("did"): pass',
        'try: pass\nexcept OSError as error:\n    x = "disk" in str(error)',
        'try: pass\nexcept OSError as error:\n    x = str(error).lower().startswith("disk")',
        'if text.startswith("there is no image"): pass',
        'x = row.get("what") == "run folders"',
        'DIED = "it was killed"\nif stopping == DIED: pass',
        'if state in ("done", "not yet done"): pass',
        're.search("timed out", text)',
    ],
)
def test_comparison_with_a_message_is_found(source: str) -> None:
    assert list(comparisons(source))


@pytest.mark.parametrize(
    "source",
    [
        'if error.code == "not-found": pass',
        "if isinstance(error, OSError) and error.errno == 2: pass",
        'if state == "closed": pass',
        "if error.answer: pass",
        'error.answer.partition("\\n")',
        'raise ValueError("there is no image %s" % name)',
        'name = "a b" if flag else "c d"',
    ],
)
def test_other_code_is_left_alone(source: str) -> None:
    assert not list(comparisons(source))


def test_every_error_has_a_stable_code_of_its_own() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    codes = {kind.__name__: kind.code for kind in classes if issubclass(kind, errors.HoldfastError)}
    assert len(codes) > 20
    assert len(set(codes.values())) == len(codes)
    assert [code for code in codes.values() if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)] == []


def test_errors_are_defined_in_one_module() -> None:
    names = {name for name, value in vars(errors).items() if isinstance(value, type)}
    elsewhere = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and {_name(base) for base in node.bases} & names
    ]
    assert elsewhere == []


def test_codes_that_the_runner_sends_are_documented() -> None:
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    sent = set()
    for path in (PACKAGE / "runner").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        sent |= set(re.findall(r'(?:error_code=|\bcode=|\bcode = |code: "str" = |return )"([a-z]+(?:-[a-z]+)+)"', text))
    assert {"unknown-verb", "bad-plan", "engine-failed"} <= sent
    assert [code for code in sorted(sent) if f"`{code}`" not in page] == []


@pytest.mark.parametrize("sent", [None, 7, [], "Bad Code", "x" * 41, "a\n", "\x1b[2J"])
def test_code_of_a_hostile_target_is_ignored(sent: object) -> None:
    assert answers.error_code({"error_code": sent}) == ""
    assert errors.RunnerError("x", code=answers.error_code({"error_code": sent})).code == "runner-failed"


def test_debug_shows_the_code_of_an_error(desk: Desk) -> None:
    plain, debug = (desk.holdfast("status", "-r", "99", *more) for more in ((), ("--debug",)))
    assert plain.code == 2
    assert "code:" not in plain.err
    assert "       code: usage\n" in debug.err


def comparisons(source: str) -> Iterator[str]:
    """Lines that compare a text for people with a literal, or anything with a sentence."""
    tree = ast.parse(source)
    lines = source.splitlines()
    caught = {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    sentences = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_sentence(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        left, right = _operands(node)
        literals = [part for part in (*left, *right) if _literals(part)]
        is_text = any(_is_text(part, caught) for part in (*left, *right)) and literals
        is_sentence = any(map(_is_sentence, literals)) or any(_name(part) in sentences for part in (*left, *right))
        if is_text or is_sentence:
            yield f"{node.lineno}: {lines[node.lineno - 1].strip()}"  # type: ignore[attr-defined]


def _operands(node: ast.AST) -> tuple[list[ast.expr], list[ast.expr]]:
    if isinstance(node, ast.Compare):
        return [node.left], node.comparators
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        if node.func.attr in METHODS:
            return [node.func.value], node.args[:1]
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
            return node.args[1:2], node.args[:1]
    return [], []


def _is_text(node: ast.expr, caught: set[str]) -> bool:
    """``error.what``, ``row["why"]``, ``row.get("why")``, ``str(error)``; in lower case or cut as well."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in TEXTS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "get":
            return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value in TEXTS
        return node.func.attr in ("lower", "strip", "casefold") and _is_text(node.func.value, caught)
    if isinstance(node, ast.Call) and _name(node.func) in ("str", "repr", "ascii") and node.args:
        return _name(node.args[0]) in caught or _is_text(node.args[0], caught)
    return False


def _literals(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    texts = [_text(value) for value in values if isinstance(value, (str, bytes))]
    return [text for text in texts if re.search("[A-Za-z]", text)]


def _is_sentence(node: ast.expr) -> bool:
    return any(SENTENCE.search(text) for text in _literals(node))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


# Commands that a message shows, up to a value that is put into them.
SHOWN_COMMAND = re.compile(r"\b(holdfast [a-z]|ssh |chmod |cd )[^,;()\n]*[ =](?<! in )(?<! on )(?<! with )$")
# What no project, target or archive chooses: numbers, names of our own, names that were read as identifiers.
CHOSEN_HERE = re.compile(
    r"number\b|number'\)$|number'\]$|^done\.saved$|^plan\.run_id$|^(flag|package|port|folder or '\.')$"
)


def test_names_in_shown_commands_are_quoted() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        lines = list(unquoted(path.read_text(encoding="utf-8")))
        if lines:
            found[path.relative_to(PACKAGE).as_posix()] = lines
    assert not found


def unquoted(source: str) -> Iterator[str]:
    """Values that a message puts into a command as they are: a shell would run what is in them."""
    tree = ast.parse(source)
    safe = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and is_quoted(node.value)
        for target in ast.walk(node.targets[0])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        text = ""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                if SHOWN_COMMAND.search(text) and not (
                    is_quoted(part.value) or value in safe or CHOSEN_HERE.search(value)
                ):
                    yield f"{node.lineno}: {value}"
                text += "X"
            elif isinstance(part, ast.Constant):
                text += str(part.value)


def is_quoted(value: ast.AST) -> bool:
    names = (getattr(node.func, "id", getattr(node.func, "attr", "")) for node in calls(value))
    return not {*names}.isdisjoint({"quote", "join", "argument"})


def calls(value: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(value) if isinstance(node, ast.Call))


@pytest.mark.parametrize(
    "source",
    [
        'f"review it, then: holdfast trust {compute.name}"',
        'f"ssh -G {login.address}"',
        'f"holdfast cancel -r {run_id}"',
        'f"add it: holdfast env lock -c {show(config)}"',
    ],
)
def test_unquoted_name_in_a_shown_command_is_found(source: str) -> None:
    assert list(unquoted(source))


@pytest.mark.parametrize(
    "source",
    [
        'f"holdfast trust {quote(compute.name)}"',
        'f"holdfast info -r {run.number}"',
        'shown = quote(folder)\nf"holdfast push {shown} --all"',
        'f"{compute.name} is not confirmed"',
    ],
)
def test_quoted_name_in_a_shown_command_is_left_alone(source: str) -> None:
    assert not list(unquoted(source))
