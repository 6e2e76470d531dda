"""What the words after the options of ``submit`` mean: a script, a notebook, a module, or a program.

A file of the project is run by what it is: its ending, its ``#!`` line, its first bytes. A word that is no file is a
program, which is looked for on the target. Reads files, starts nothing.
"""

from __future__ import annotations

import os
import re

from holdfast.errors import ConfigError, UsageError
from holdfast.planning import near_scripts, script_path
from holdfast.ports import PYTHON
from holdfast.record import Record
from holdfast.runner import untrusted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PYTHONS = ("python", "python3")
# What runs a file that does not say so itself in its first line.
_PROGRAMS = {".sh": "bash", ".bash": "bash", ".R": "Rscript", ".r": "Rscript", ".jl": "julia"}
_NOTEBOOK = ".ipynb"
_SCRIPTS = (".py", _NOTEBOOK, *_PROGRAMS)
_BINARIES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")  # Linux, macOS
_HEAD = 512
_PLAIN_OPTIONS = frozenset("bBdOPqsuv")  # options of Python that take no value and leave the run's variables in force
_LARGEST_NOTEBOOK = 256 << 20
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class Runnable(Record):
    """Fields of a job: ``command`` is empty for a Python script, ``source`` None where it is the script."""

    script: str
    arguments: tuple[str, ...]
    command: tuple[str, ...] = ()
    source: str | None = None


def understand(root: str, folder: str, argv: tuple[str, ...], *, after_dashes: bool) -> Runnable:
    """``folder`` is where paths begin; ``after_dashes``: the words came after ``--``, as a command does."""
    first, rest = argv[0], tuple(argv[1:])
    if not first:
        raise UsageError("the name of the script or program is empty", hint="holdfast submit SCRIPT [ARGUMENTS]")
    if first == "-m":
        return _module(root, folder, rest)
    if first in _PYTHONS and not os.path.isfile(os.path.join(folder, first)):
        return _python(root, folder, rest)
    if _is_program(root, folder, first, after_dashes=after_dashes):
        return Runnable(first, rest, (first,), _source(root, rest))
    _refuse_folder(root, folder, first)
    return _file(root, script_path(root, folder, first), rest)


def _is_program(root: str, folder: str, word: str, *, after_dashes: bool) -> bool:
    """Whether a word names a program of the target, and not a file of the project."""
    if word.endswith(_SCRIPTS) or any(os.path.lexists(os.path.join(base, word)) for base in (folder, root)):
        is_outside = os.path.isabs(word) and os.path.relpath(word, root).startswith(os.pardir)
        return is_outside and not word.endswith(_SCRIPTS) and not os.path.isdir(word)
    if os.path.isabs(word):
        return True
    return not set(word) & set("/\\") and (after_dashes or not near_scripts(folder, word))


def _python(root: str, folder: str, rest: tuple[str, ...]) -> Runnable:
    """The run's own interpreter with its arguments."""
    if not rest:
        raise UsageError("python needs a script or -m MODULE", hint="holdfast submit -c local -- python -m pkg.train")
    if rest[0] == "-m":
        return _module(root, folder, rest[1:])
    if rest[0].startswith("-"):
        return Runnable("python", rest, (PYTHON,), _source(root, rest))
    _refuse_folder(root, folder, rest[0])
    return Runnable(script_path(root, folder, rest[0]), rest[1:])


def _source(root: str, arguments: tuple[str, ...]) -> str:
    """The first argument that is a Python file of the project."""
    for word in arguments:
        path = os.path.normpath(word)
        is_inside = not os.path.isabs(path) and not path.startswith(os.pardir)
        if word.endswith(".py") and is_inside and os.path.isfile(os.path.join(root, path)):
            return path
    return ""


def _module(root: str, folder: str, rest: tuple[str, ...]) -> Runnable:
    """A module of the project, or one of the run's environment, which is not known here."""
    if not rest or not _MODULE.fullmatch(rest[0]):
        named = f": {rest[0]!r} is not the name of a module" if rest else ""
        raise UsageError(f"-m needs a module{named}", hint="holdfast submit -c local -m pkg.train")
    name = rest[0]
    for base in ("", "src"):
        top = os.path.join(root, base, name.partition(".")[0])
        if os.path.isfile(f"{top}.py") or (os.path.isdir(top) and _has_python(top)):
            source = _module_file(root, base, name)
            return Runnable(f"-m {name}", rest[1:], (PYTHON, "-m", name), source)
    if folder != root and os.path.isfile(os.path.join(folder, *name.split(".")) + ".py"):
        below = os.path.relpath(folder, root).replace(os.sep, ".")
        raise UsageError(
            f"the module {name} is not in the project's folder", where=root, hint=f"did you mean -m {below}.{name}?"
        )
    return Runnable(f"-m {name}", rest[1:], (PYTHON, "-m", name), "")


def _has_python(folder: str) -> bool:
    """Whether a folder is a package and not data that has the name of one."""
    return any(name.endswith(".py") or os.path.isdir(os.path.join(folder, name)) for name in os.listdir(folder))


def _module_file(root: str, base: str, name: str) -> str:
    path = os.path.join(base, *name.split("."))
    for file in (f"{path}.py", os.path.join(path, "__main__.py")):
        if os.path.isfile(os.path.join(root, file)):
            return file
    where = os.path.join(root, os.path.dirname(path))
    if os.path.isdir(os.path.join(root, path)):
        hint = f"a package is run by its __main__.py; its modules: {_modules_in(os.path.join(root, path), name)}"
        raise UsageError(f"the package {name} has no __main__.py", where=os.path.join(root, path), hint=hint)
    parent, _, last = name.rpartition(".")
    known = _modules_in(where, parent, near=last) if os.path.isdir(where) else ""
    raise UsageError(f"no module named {name} in the project", where=where, hint=known and f"did you mean -m {known}?")


def _modules_in(folder: str, package: str, near: str = "") -> str:
    """The modules of a package, or the one whose name is near."""
    from difflib import get_close_matches

    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name != "__init__.py")
    shown = get_close_matches(near, names, 1) if near else names[:8]
    return ", ".join(f"{package}.{name}" if package else name for name in shown)


def _refuse_folder(root: str, folder: str, named: str) -> None:
    for base in (folder, root):
        path = os.path.abspath(os.path.join(base, named))
        if os.path.isdir(path):
            inside = os.path.relpath(path, root).replace(os.sep, ".")
            is_package = os.path.isfile(os.path.join(path, "__main__.py")) and not inside.startswith(".")
            hint = f"run it as a module: -m {inside}" if is_package else "name a file in it, or a module: -m pkg.train"
            raise UsageError(f"{named} is a folder", where=path, hint=hint)


def _file(root: str, script: str, rest: tuple[str, ...]) -> Runnable:
    path = os.path.join(root, script)
    ending = os.path.splitext(script)[1]
    if ending == _NOTEBOOK:
        _check_notebook(path, script)
        return Runnable(script, rest, (PYTHON, "-m", "holdfast_notebook", script), script)
    head = _head(path)
    shown = f"./{script}" if script.startswith("-") else script
    interpreter = _interpreter(head)
    options = _python_options(interpreter, script, path)
    if options is not None or ending == ".py":
        return Runnable(script, rest, (PYTHON, *options, shown), script) if options else Runnable(script, rest)
    if interpreter:
        return Runnable(script, rest, (*interpreter, shown), script)
    if head.startswith(_BINARIES) or (b"\0" in head and os.access(path, os.X_OK)):
        if not os.access(path, os.X_OK):
            from shlex import quote

            raise ConfigError(f"the program {script} is not executable", where=path, hint=f"chmod +x {quote(script)}")
        return Runnable(script, rest, (f"./{script}",), script)
    if ending in _PROGRAMS:
        return Runnable(script, rest, (_PROGRAMS[ending], shown), script)
    return Runnable(script, rest)


def _head(path: str) -> bytes:
    """The first bytes; what cannot be read is refused where it is stored."""
    try:
        with open(untrusted.open_file(path), "rb") as source:
            return source.read(_HEAD)
    except (OSError, untrusted.Untrusted):
        return b""


def _interpreter(head: bytes) -> tuple[str, ...]:
    """The words of the ``#!`` line, as the kernel splits it; the file's mode does not matter then."""
    if not head.startswith(b"#!"):
        return ()
    line = os.fsdecode(head[2:].split(b"\n", 1)[0].strip())
    return tuple(line.split(None, 1))


def _python_options(interpreter: tuple[str, ...], script: str, path: str) -> tuple[str, ...] | None:
    """The options that a ``#!`` line has for Python; None where it names another program."""
    tokens = " ".join(interpreter).split()
    number = next((number for number, word in enumerate(tokens) if os.path.basename(word).startswith("python")), None)
    if number is None:
        return None
    options = tokens[number + 1 :]
    values = iter(options)
    for word in values:
        if word in ("-X", "-W"):
            next(values, None)
        elif not word.startswith(("-X", "-W")) and (word[:1] != "-" or not word[1:] or set(word[1:]) - _PLAIN_OPTIONS):
            what = f"the option {word!r} of the #! line of {script} cannot be used in a run"
            from shlex import join

            hint = f"delete it, or name it yourself: holdfast submit -- {join(['python', *options, script])}"
            raise ConfigError(what, where=f"{path}:1", hint=hint)
    return tuple(options)


def _check_notebook(path: str, script: str) -> None:
    import json

    try:
        notebook = json.loads(untrusted.read_file(path, _LARGEST_NOTEBOOK))
    except (OSError, ValueError, RecursionError) as error:
        _refuse_notebook(script, path, "is not a notebook", str(error), "a notebook is a file of JSON")
    version = notebook.get("nbformat") if isinstance(notebook, dict) else None
    if not isinstance(version, int) or (version > 3 and not isinstance(notebook.get("cells"), list)):
        _refuse_notebook(script, path, "is not a notebook", "it has no nbformat or no cells", "")
    if version < 4:
        hint = f"jupyter nbconvert --to notebook --inplace {script} converts it"
        _refuse_notebook(script, path, f"has the old notebook format {version}", "nbformat 4 is needed", hint)


def _refuse_notebook(script: str, path: str, reason: str, answer: str, hint: str) -> NoReturn:
    raise ConfigError(f"{script} {reason}", where=path, answer=answer, hint=hint)
