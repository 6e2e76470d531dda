"""``from azureml.logging import get_azureml_logger``, which most scripts of the time begin with."""

import holdfast

from . import _holdfast_outputs as outputs


def get_azureml_logger() -> "RunLogger":
    return RunLogger()


class RunLogger:
    """Logs into the run this script is part of; does nothing outside a run, and never raises into the script."""

    def log(self, name: "str", value: "object") -> "ScriptRunRequest":
        holdfast.log(name, value)
        return ScriptRunRequest()

    def upload(self, artifact_path: "str", text: "str | bytes") -> "ScriptRunRequest":
        """Keep a text as a file below outputs/."""
        if holdfast.active():
            try:
                with open(outputs.place_for(artifact_path), "wb") as target:
                    target.write(text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape"))
            except (OSError, ValueError) as problem:
                outputs.complain(artifact_path, problem)
        return ScriptRunRequest()


class ScriptRunRequest:
    """What a call of the logger answers. Its work is done by then."""

    def wait(self, timeout: "float | None" = None) -> "None":
        """Return at once."""
