"""``generate_schema``, which old scripts call at the end of a training."""

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def generate_schema(
    run_func: "Callable[..., object]",
    inputs: "Mapping[str, object] | None" = None,
    filepath: "str | None" = None,
    outputs: "Mapping[str, object] | None" = None,
) -> "dict[str, object]":
    """The names, types and samples of the inputs as JSON, written to ``filepath``. No web service is made."""
    schema = {
        "function": getattr(run_func, "__name__", str(run_func)),
        "input": {name: _described(sample) for name, sample in (inputs or {}).items()},
        "output": {name: _described(sample) for name, sample in (outputs or {}).items()},
    }
    if filepath:
        folder = os.path.dirname(filepath)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(filepath, "w", encoding="utf-8") as target:
            json.dump(schema, target, indent=2, sort_keys=True)
    return schema


def _described(definition: "object") -> "dict[str, object]":
    sample = getattr(definition, "sample", definition)
    for name in ("toPandas", "to_dict", "tolist"):
        convert = getattr(sample, name, None)
        if convert is not None:
            sample = convert("records") if name == "to_dict" else convert()
    return {
        "type": getattr(definition, "input_type", type(sample).__name__),
        "example": json.loads(json.dumps(sample, default=str)),
    }
