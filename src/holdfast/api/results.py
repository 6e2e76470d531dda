"""Reads the result of a remote function. Nothing that a target sends is executed here."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from holdfast.api import arrow_results, sending
from holdfast.api.frames import needed
from holdfast.errors import HoldfastError, MalformedAnswerError, RemoteError, UsageError
from holdfast.present import missing_module
from holdfast.script_api import remote_call

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.api.run_handle import Run

NAME = f"{remote_call.FOLDER}/result.json"
_LONGEST = {"type": 1000, "message": 100_000, "traceback": 1_000_000}  # characters of an exception
_MOST_BYTES = 1 << 30  # of result.json; arrays and tables are files beside it


def read(run: Run, *, allow_pickle: bool) -> Any:
    """The value that the function returned; the exception that it raised is a ``RemoteError``."""
    document = _document(run)
    if "error" in document:
        error = document["error"]
        raise remote_error(run, error) if isinstance(error, dict) else _malformed(run, "error is not an object")
    if "pickle" not in document:
        if "value" not in document:
            raise _malformed(run, "there is no value, error or pickle")
        return _Decoder(run).decode(document["value"])
    if not allow_pickle:
        what = "the result is pickled, and reading it would run code that the target sent"
        raise UsageError(what, where=run.id, hint="result(allow_pickle=True), if you trust the target")
    import pickle

    with run.outputs[f"{remote_call.FOLDER}/result.pickle"].open("rb") as source:
        return pickle.load(source)


def remote_error(run: Run, error: dict[str, Any]) -> RemoteError:
    kind, message, text = (str(error.get(key) or "")[:most] for key, most in _LONGEST.items())
    is_missing = kind == ModuleNotFoundError.__name__
    hint = missing_module.explain(run._files(), text.encode(errors="replace")) if is_missing else ""
    made = RemoteError(f"{kind}: {message}", where=f"run {run.number} on {run.target}", answer=text, hint=hint)
    made.type_name, made.message, made.traceback = kind, message, text
    return made


def _document(run: Run) -> dict[str, Any]:
    try:
        path = run.outputs[NAME]
    except KeyError:
        run.wait(check=True)
        if run.script.startswith(f"{sending.FOLDER}/"):
            hint = (
                f"a function that calls sys.exit() returns nothing; holdfast logs -r {run.number} shows what it printed"
            )
            answer = f"outputs/{NAME} is not among the outputs of the run"
            raise RemoteError("the function left no result", where=run.id, answer=answer, hint=hint) from None
        raise UsageError("this run is not a call of a remote function", where=run.id) from None
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise _malformed(run, f"result.json has {size} bytes; at most {_MOST_BYTES} are read")
    try:
        document = json.loads(path.read_bytes())
        if isinstance(document, dict) and document.get("v") == 1:
            return document
    except (ValueError, RecursionError) as error:
        raise _malformed(run, f"result.json is not JSON: {error}") from error
    raise _malformed(run, "result.json is of another version")


def _malformed(run: Run, what: str) -> MalformedAnswerError:
    hint = f"holdfast logs -r {run.number} shows what the run printed"
    return MalformedAnswerError("the target sent a malformed result", where=run.id, answer=what, hint=hint)


def _array(path: Path) -> Any:
    """The array of a .npy file. Mapping it compares the shape in its header with its size before memory is taken."""
    numpy, mapping = needed("numpy"), needed("numpy.lib.format")
    array = mapping.open_memmap(path, mode="r")
    if array.size and not array.dtype.itemsize:
        raise ValueError("the items of the array have no size")
    return numpy.array(array)


class _Decoder:
    def __init__(self, run: Run) -> None:
        self._run = run
        self._paths: dict[str, Path] = {}
        self._read: set[str] = set()

    def decode(self, value: Any) -> Any:
        try:
            self._paths = self._run.outputs.fetch(_files_of(value))
            return self._decode(value)
        except HoldfastError:
            raise
        except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
            raise
        except BaseException as error:  # the readers of arrays and tables raise errors of many types
            raise _malformed(self._run, f"{type(error).__name__}: {error}") from error

    def _decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("$type")
        if kind is None:
            return {key: self._decode(item) for key, item in value.items()}
        if kind == "tuple":
            return tuple(self._decode(item) for item in value["items"])
        if kind == "dict":
            return {self._decode(key): self._decode(item) for key, item in value["pairs"]}
        if kind == "bytes":
            return base64.b64decode(value["base64"], validate=True)
        if kind in ("array", "scalar"):
            array = _array(self._file(value["npy"]))
            return array if kind == "array" else array[()]
        return arrow_results.read(kind, self._file(value["arrow"]))

    def _file(self, name: str) -> Path:
        if name in self._read:  # a short answer could fill the memory
            raise ValueError(f"{name} is named more than once")
        self._read.add(name)
        return self._paths[f"{remote_call.FOLDER}/{name}"]


def _files_of(value: Any) -> list[str]:
    """The outputs with the arrays and tables of a result, which are fetched together."""
    names: set[str] = set()
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            named = (item.get(key) for key in ("npy", "arrow")) if "$type" in item else ()
            names.update(name for name in named if isinstance(name, str))
        rest.extend(item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
    return [f"{remote_call.FOLDER}/{name}" for name in sorted(names)]
