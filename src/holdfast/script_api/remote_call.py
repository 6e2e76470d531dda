"""The script of a run that calls a function of ``holdfast.remote``: load it, call it, write the result.

A copy of this file is in the run's snapshot, beside what the client sent: ``call.json``, ``arguments.pickle`` and, for
a function that is not in a file of the project, ``function.pickle``. A cell of a notebook (``%%submit``) is such a call
too, of ``cell_source.py`` with the notebook's variables. The result goes to ``outputs/holdfast-result`` as
JSON, with arrays as .npy and tables as Arrow files beside it. docs/formats.md has the format.
"""

import os
import sys

if __name__ == "__main__" and os.path.abspath(sys.path[0] or os.curdir) == os.path.dirname(os.path.abspath(__file__)):
    del sys.path[0]  # this file has the name of the function, which may be that of a module

import ast
import importlib
import json
import pickle
import runpy
import traceback
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FOLDER = "holdfast-result"
_MAIN = "__holdfast_main__"
_UNGUARDED = (
    "a remote function was called while its script was imported on the target; "
    'put the calls under: if __name__ == "__main__":'
)
_TAG = "$type"
_DEEPEST = 100
_MOST_BITS = 13000  # of a number: Python writes and reads no more than 4300 digits


class CannotReturn(Exception):
    """A part of the result has no form in which it can go back."""


def main() -> "int":
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "call.json"), encoding="utf-8") as source:
        call = json.load(source)
    folder = os.path.join(os.environ.get("HOLDFAST_OUTPUTS") or "outputs", FOLDER)
    os.makedirs(folder, exist_ok=True)
    try:
        function, args, kwargs = _load(here, call)
        result = function(*args, **kwargs)
        document = _encoded(result, folder, call)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        return _report(error, folder)
    _write(folder, document)
    return 0


def _load(here: "str", call: "dict[str, Any]") -> "tuple[Any, Any, Any]":
    for path in reversed(call["path"]):
        sys.path.insert(0, os.path.abspath(path))
    names = _client_names()
    names.in_call = True
    _check_python(call)
    if "python" in call:
        sys.path.insert(0, os.path.join(here, "cloudpickle.zip"))
    if call["kind"] == "cell":
        function = _cell(os.path.join(here, "cell_source.py"), call)
    elif call["kind"] == "pickle":
        with open(os.path.join(here, "function.pickle"), "rb") as source:
            function = _Unpickler(source).load()
    else:
        names.refusal = _UNGUARDED
        module = _main(call["file"]) if call["kind"] == "file" else importlib.import_module(call["module"])
        names.refusal = ""
        function = module
        for name in call["name"].split("."):
            function = getattr(function, name)
        function = getattr(function, "function", function)  # of a LocalFunction
    with open(os.path.join(here, "arguments.pickle"), "rb") as source:
        args, kwargs = _Unpickler(source).load()
    return function, args, kwargs


class _Unpickler(pickle.Unpickler):
    """Remote functions become those of the target, which run in place."""

    def find_class(self, module: "str", name: "str") -> "Any":
        if (module, name) == ("holdfast.api.remote_function", "RemoteFunction"):
            return _client_names().LocalFunction
        return super().find_class(module, name)


def _client_names() -> "Any":
    """The module that says what ``holdfast.remote`` is here."""
    try:
        return importlib.import_module("_holdfast_client_names")
    except ImportError:
        return types.SimpleNamespace()  # the script has another holdfast, or none


def _check_python(call: "dict[str, Any]") -> "None":
    if call.get("python", list(sys.version_info[:2])) != list(sys.version_info[:2]):
        raise RuntimeError(
            "the function was pickled by Python %d.%d and this is Python %d.%d: "
            "move it to a module of the project, or use the same version of Python"
            % (*call["python"], *sys.version_info[:2])
        )


def _cell(path: "str", call: "dict[str, Any]") -> "Any":
    """A cell as a function of the notebook's variables; it returns its last value and the chosen variables."""
    with open(path, encoding="utf-8") as source:
        tree = ast.parse(source.read(), path)

    def execute(**variables: "Any") -> "dict[str, Any]":
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        namespace = module.__dict__
        namespace.update(variables)
        for name, module in call["imports"].items():
            namespace[name] = importlib.import_module(module)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, path, "exec"), namespace)
        value = None
        if last is not None:
            value = eval(compile(ast.Expression(last.value), path, "eval"), namespace)  # type: ignore[attr-defined]
        missing = [name for name in call["returns"] if name not in namespace]
        if missing:
            raise NameError("the cell has no variable %s, which --get names" % ", ".join(missing))
        return {"variables": {name: namespace[name] for name in call["returns"]}, "last": _LastValue(value)}

    return execute


class _LastValue:
    """Goes back as it is where it can, else as the text that a notebook would show."""

    def __init__(self, value: "Any") -> "None":
        self.value = value


def _main(path: "str") -> "types.ModuleType":
    """The client's main script as a module, as multiprocessing does it; what was pickled there names __main__."""
    module = types.ModuleType(_MAIN)
    module.__dict__.update(runpy.run_path(path, run_name=_MAIN))
    sys.modules["__main__"] = sys.modules["__mp_main__"] = sys.modules[_MAIN] = module
    return module


def _encoded(result: "object", folder: "str", call: "dict[str, Any]") -> "dict[str, Any]":
    other = "" if call["kind"] == "cell" else ", or use @holdfast.remote(allow_pickle=True)"
    try:
        return {"v": 1, "value": Encoder(folder, other).encode(result, "result", 0)}
    except CannotReturn:
        if not call["allow_pickle"]:
            raise
    with open(os.path.join(folder, "result.pickle"), "wb") as target:
        pickle.dump(result, target, 4)
    return {"v": 1, "pickle": "result.pickle"}


class Encoder:
    """Turns a value into JSON; what JSON has no form for is an object with ``$type``."""

    def __init__(self, folder: "str", other: "str") -> "None":
        """``other``: what else the user can do with a value that cannot be returned."""
        self._folder = folder
        self._other = other
        self._files = 0

    def encode(self, value: "Any", where: "str", depth: "int") -> "Any":
        kind = type(value)
        if depth > _DEEPEST:
            raise CannotReturn("%s is nested too deeply" % where)
        if kind is int and value.bit_length() > _MOST_BITS:
            raise CannotReturn("%s is a number of more than 4000 digits: return it as text" % where)
        if value is None or kind in (bool, int, float, str):
            return value
        if kind is list:
            return self._items(value, where, depth)
        if kind is tuple:
            return {_TAG: "tuple", "items": self._items(value, where, depth)}
        if kind is dict:
            return self._dict(value, where, depth)
        if kind is _LastValue:
            try:
                return {"value": self.encode(value.value, "the value of the cell", depth + 1)}
            except CannotReturn:
                return {"text": repr(value.value)[:100000]}
        if kind is bytes:
            import base64

            return {_TAG: "bytes", "base64": base64.b64encode(value).decode("ascii")}
        return self._of_package(value, kind, where)

    def _items(self, values: "Any", where: "str", depth: "int") -> "list[Any]":
        return [self.encode(value, "%s[%d]" % (where, at), depth + 1) for at, value in enumerate(values)]

    def _dict(self, value: "dict[Any, Any]", where: "str", depth: "int") -> "Any":
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: self.encode(item, "%s[%r]" % (where, key), depth + 1) for key, item in value.items()}
        pairs = [
            [self.encode(key, "a key of %s" % where, depth + 1), self.encode(item, "%s[%r]" % (where, key), depth + 1)]
            for key, item in value.items()
        ]
        return {_TAG: "dict", "pairs": pairs}

    def _of_package(self, value: "Any", kind: "type", where: "str") -> "dict[str, str]":
        package = kind.__module__.split(".")[0]
        if package == "torch" and hasattr(value, "detach"):
            value, package = value.detach().cpu().numpy(), "numpy"
        is_masked = kind.__module__.startswith("numpy.ma")  # which .npy files have no form for
        if package == "numpy" and hasattr(value, "dtype") and not value.dtype.hasobject and not is_masked:
            return self._npy(value)
        if kind.__name__ == "ndarray" and package == "numpy":
            raise CannotReturn("%s is an array of Python objects: return it as a list, or with another dtype" % where)
        if package in ("pandas", "polars", "pyarrow") and kind.__name__ in ("DataFrame", "Table"):
            return self._arrow(value, package, where)
        if package == "numpy" and getattr(getattr(value, "dtype", None), "hasobject", False):
            where += ", an array of Python objects,"
        raise CannotReturn(
            "%s is a %s.%s, which cannot be returned: return numbers, text, lists, dicts, numpy arrays or data frames, "
            "or write it to a file in holdfast.outputs()%s" % (where, kind.__module__, kind.__qualname__, self._other)
        )

    def _npy(self, value: "Any") -> "dict[str, str]":
        numpy = importlib.import_module("numpy")
        name = self._name("npy")
        numpy.save(os.path.join(self._folder, name), value, allow_pickle=False)
        return {_TAG: "array" if isinstance(value, numpy.ndarray) else "scalar", "npy": name}

    def _arrow(self, value: "Any", package: "str", where: "str") -> "dict[str, str]":
        name = self._name("arrow")
        try:
            self._write_arrow(value, package, os.path.join(self._folder, name))
        except (OSError, MemoryError):
            raise
        except Exception as error:  # of pyarrow and polars
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
            raise CannotReturn(
                "%s is a data frame that Arrow has no form for (%s): give each column a name of its own and one type, "
                "or write it to a file in holdfast.outputs()%s" % (where, reason, self._other)
            ) from error
        return {_TAG: package, "arrow": name}

    def _write_arrow(self, value: "Any", package: "str", path: "str") -> "None":
        if package == "polars":
            value.write_ipc(path)
        else:
            pyarrow = importlib.import_module("pyarrow")
            table = pyarrow.Table.from_pandas(value) if package == "pandas" else value
            new_file = importlib.import_module("pyarrow.ipc").new_file
            with pyarrow.OSFile(path, "wb") as sink, new_file(sink, table.schema) as writer:
                writer.write_table(table)

    def _name(self, ending: "str") -> "str":
        self._files += 1
        return "result-%d.%s" % (self._files, ending)


def _report(error: "BaseException", folder: "str") -> "int":
    """The exception as text, for the client and in the log."""
    kind, trace = type(error), error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next  # a reader wants the frames of the function
    text = "".join(traceback.format_exception(kind, error, trace))
    name = (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else kind.__module__ + "." + kind.__qualname__
    )
    try:
        message = str(error)
    except Exception:
        message = ""
    _write(folder, {"v": 1, "error": {"type": name, "message": message, "traceback": text}})
    sys.stderr.write(text)
    return 1


def _write(folder: "str", document: "dict[str, Any]") -> "None":
    beside = os.path.join(folder, "result.json.part")
    with open(beside, "w", encoding="utf-8") as target:
        json.dump(document, target)
    os.replace(beside, os.path.join(folder, "result.json"))


if __name__ == "__main__":
    sys.exit(main())
