"""What is sent for a call of a remote function: the function, by reference or pickled, and its arguments.

Decision 22 has the rules. Nothing here runs on the target; ``script_api/remote_call.py`` does.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
import sysconfig
import zipfile
from typing import TYPE_CHECKING, Any

from holdfast.api import pickling
from holdfast.api.pickling import MAINS, PROTOCOL, cloudpickle_module
from holdfast.errors import CannotSendError
from holdfast.script_api import remote_call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.api.pickling import Dumps

FOLDER = ".holdfast-call"
_DEEPEST = 6
INSTALL = "pip install cloudpickle"


def files(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    root: str,
    *,
    allow_pickle: bool,
) -> dict[str, bytes]:
    """The files of a call, for the snapshot of its run. ``root`` is the project's folder."""
    name = function.__qualname__
    contents: dict[str, bytes] = {}
    call: dict[str, Any] = {"v": 1, "allow_pickle": allow_pickle, "path": import_paths(root), "name": name}
    reference = _reference(function, root)
    if reference is None:
        call.update(kind="pickle")
        contents["function.pickle"] = _pickled_function(function, root)
    else:
        call.update(reference)
    contents["arguments.pickle"], is_by_value = _pickled_arguments(function, args, kwargs, root)
    if reference is None or is_by_value:
        call["python"] = list(sys.version_info[:2])
        contents["cloudpickle.zip"] = cloudpickle_source()
    contents["call.json"] = json.dumps(call).encode()
    with open(remote_call.__file__, "rb") as source:
        contents[script_name(function)] = source.read()
    return {f"{FOLDER}/{file}": content for file, content in contents.items()}


def script_name(function: Callable[..., Any]) -> str:
    """The name that the history shows; it is also that of a file."""
    name = "".join(character if character.isalnum() else "_" for character in function.__name__)
    return f"{name[:100] or 'function'}.py"


def arguments_for_history(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """The arguments that are plain values, as options: the history takes them for parameters."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise CannotSendError(f"{function.__qualname__}: {error}") from error
    except ValueError:
        return []  # a function of C that does not tell its arguments
    plain = {name: str(value)[:1000] for name, value in bound.items() if isinstance(value, (str, int, float))}
    return [word for name, text in plain.items() if _can_be_argument(text) for word in (f"--{name}", text)]


def _can_be_argument(text: str) -> bool:
    """Whether the system passes it to a program; a function gets any text, pickled."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _reference(function: Callable[..., Any], root: str) -> dict[str, str] | None:
    """How the target finds the function by its name; None where it has to be pickled by value."""
    name, module = function.__qualname__, sys.modules.get(function.__module__)
    if "<" in name or module is None:  # <lambda>, <locals>
        return None
    if function.__module__ not in MAINS:
        return {"kind": "module", "module": function.__module__} if is_there(function.__module__, root) else None
    file = getattr(module, "__file__", None)
    inside = _inside(file, root) if file is not None else None
    if inside is None or cloudpickle_module() is not None:
        return None
    return {"kind": "file", "file": inside}


def is_there(module: str, root: str) -> bool:
    """Whether the target can import this module by its name."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module in MAINS:
        return False
    if file is None:
        return module in sys.builtin_module_names
    return _inside(file, root) is not None or _is_installed(file) or _is_of_python(module, file)


def dumps_by_value(root: str) -> Dumps:
    """A ``dumps`` for what the target cannot import; it needs cloudpickle."""
    return pickling.by_value(lambda module: is_there(module, root))


def _inside(path: str, root: str) -> str | None:
    """The path relative to the project; None for one outside of it, or in an environment inside of it."""
    inside = os.path.relpath(os.path.realpath(path), os.path.realpath(root))
    return None if inside.startswith(os.pardir) or _is_installed(path) else inside.replace(os.sep, "/")


def _is_installed(path: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.split(os.sep)))


def _is_of_python(module: str, file: str) -> bool:
    """Whether the module is of the standard library, and not another one of that name."""
    library = os.path.join(os.path.realpath(sysconfig.get_path("stdlib")), "")
    return module.partition(".")[0] in sys.stdlib_module_names and os.path.realpath(file).startswith(library)


def import_paths(root: str) -> list[str]:
    """The folders of the project that modules are imported from."""
    inside = [_inside(entry or os.getcwd(), root) for entry in sys.path if os.path.isdir(entry or os.getcwd())]
    return list(dict.fromkeys([*(path for path in inside if path is not None), "."]))


def cloudpickle_source() -> bytes:
    """The package as a zip that the target imports: it need not be installed there."""
    folder, buffer = os.path.dirname(cloudpickle_module().__file__), io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                info = zipfile.ZipInfo(f"cloudpickle/{name}")  # with a fixed date: the same bytes every time
                with open(os.path.join(folder, name), "rb") as source:
                    archive.writestr(info, source.read())
    return buffer.getvalue()


def _pickled_function(function: Callable[..., Any], root: str) -> bytes:
    name = function.__qualname__
    if cloudpickle_module() is None:
        what = f"{name} is not a function of a file in the project, and cloudpickle is not installed"
        hint = f"move it to the top level of a module below {root}, or: {INSTALL}"
        raise CannotSendError(what, where=_place(function), hint=hint)
    dumps = dumps_by_value(root)
    try:
        return dumps(function, protocol=PROTOCOL)
    except Exception as error:
        culprit = _culprit(function, dumps, 0)
        what = f"{name} cannot be sent: it uses {culprit or 'something'} that cannot be pickled"
        hint = "create it inside the function, or pass what it is made from as an argument"
        raise CannotSendError(what, where=_place(function), answer=error_text(error), hint=hint) from error


def _culprit(function: Callable[..., Any], dumps: Dumps, depth: int) -> str:
    """The variable of an enclosing scope, or the global one, that cannot be pickled."""
    variables = inspect.getclosurevars(function)
    for kind, variables_by_name in (("the variable", variables.nonlocals), ("the global variable", variables.globals)):
        for name, value in variables_by_name.items():
            where = unsendable(value, name, dumps, depth)
            if where:
                return f"{kind} {where}"
    defaults = inspect.signature(function).parameters.items()
    for name, parameter in defaults:
        if parameter.default is not parameter.empty:
            where = unsendable(parameter.default, name, dumps, depth)
            if where:
                return f"the default of {where}"
    return ""


def _pickled_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], root: str
) -> tuple[bytes, bool]:
    """The pickle, and whether it takes cloudpickle to read it."""
    values = (args, dict(kwargs))
    try:
        return pickled(values, root)
    except Exception as error:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        dumps = pickling.plain_dumps if cloudpickle_module() is None else dumps_by_value(root)
        culprits = (unsendable(value, name, dumps, 0) for name, value in bound.items())
        culprit = next(filter(None, culprits), "an argument")
        what = f"the argument {culprit} of {function.__qualname__} cannot be sent"
        hint = "pass what it is made from, and create it inside the function"
        raise CannotSendError(what, where=_place(function), answer=error_text(error), hint=hint) from error


def pickled(values: object, root: str) -> tuple[bytes, bool]:
    """By reference where that is possible: it works across versions of Python. True: by value, with cloudpickle."""
    if cloudpickle_module() is None:
        return pickling.plain_dumps(values, protocol=PROTOCOL), False
    try:
        data = pickling.plain_dumps(values, protocol=PROTOCOL)
        if not pickling.names_main(data):
            return data, False
    except Exception:
        pass  # by value perhaps
    return dumps_by_value(root)(values, protocol=PROTOCOL), True


def unsendable(value: Any, where: str, dumps: Dumps, depth: int) -> str:
    """The innermost part of a value that cannot be pickled, as an expression with its type; empty where all can."""
    try:
        dumps(value, protocol=PROTOCOL)
        return ""
    except Exception:
        for inner, path in _parts(value, where) if depth < _DEEPEST else ():
            culprit = unsendable(inner, path, dumps, depth + 1)
            if culprit:
                return culprit
        function = value._function if isinstance(value, pickling.InPlaceFunction) else value
        used = _culprit(function, dumps, depth + 1) if inspect.isfunction(function) and depth < _DEEPEST else ""
        return f"{where}, which uses {used}" if used else f"{where} ({_type_name(value)})"


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _parts(value: Any, where: str) -> list[tuple[Any, str]]:
    if isinstance(value, dict):
        return [(item, f"{where}[{key!r}]") for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [(item, f"{where}[{at}]") for at, item in enumerate(value)]
    inside = getattr(value, "__dict__", None)
    if isinstance(inside, dict) and not inspect.ismodule(value) and not callable(value):
        return [(item, f"{where}.{name}") for name, item in inside.items()]
    return []


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else function.__module__


def error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
