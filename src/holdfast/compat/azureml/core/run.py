"""``Run``, the successor's name for the logger."""

# ruff: noqa: ARG002 - the signatures are the successor's, and descriptions are not kept

import io
import os
import shutil

import holdfast

from .. import _holdfast_outputs as outputs  # noqa: TID252

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, Protocol

    class Plot(Protocol):
        """A figure of matplotlib, or pyplot itself."""

        def savefig(self, target: "BinaryIO", format: "str") -> "object": ...


class Run:
    """The run this script is part of. What is logged is kept with it; outside a run nothing happens.

    Methods that log never raise into the script. How the run ends is told by the script's own end.
    """

    @classmethod
    def get_context(cls, allow_offline: "bool" = True) -> "Run":
        if not allow_offline and not holdfast.active():
            raise RuntimeError(
                "this script is not part of a run, and Run.get_context was called with allow_offline=False"
            )
        return cls()

    @classmethod
    def get_submitted_run(cls) -> "Run":
        return cls()

    @property
    def id(self) -> "str":
        return holdfast.run_id() or "OfflineRun"

    def log(self, name: "str", value: "object", description: "str" = "", step: "int | None" = None) -> "None":
        holdfast.log(name, value, step)

    def log_list(self, name: "str", value: "object", description: "str" = "") -> "None":
        holdfast.log(name, value)

    def log_row(self, name: "str", description: "str | None" = None, **columns: "object") -> "None":
        holdfast.log(name, columns)

    def log_table(self, name: "str", value: "dict[str, object]", description: "str" = "") -> "None":
        holdfast.log(name, value)

    def log_image(
        self, name: "str", path: "str | None" = None, plot: "Plot | None" = None, description: "str" = ""
    ) -> "None":
        """Keep a picture below outputs/, drawn from a plot or copied from a file, and log the name it got."""
        if not holdfast.active():
            return
        try:
            holdfast.log(name, _keep_picture(name, path, plot))
        except Exception as problem:  # a drawing library may raise anything
            outputs.complain(name, problem)

    def upload_file(self, name: "str", path_or_stream: "str | BinaryIO") -> "None":
        """Keep a copy of a file below outputs/. Raises if it cannot be read or written."""
        if not holdfast.active():
            return
        path = outputs.place_for(name)
        if not isinstance(path_or_stream, (str, bytes, os.PathLike)):
            with open(path, "wb") as target:
                shutil.copyfileobj(path_or_stream, target)
        elif not (os.path.exists(path) and os.path.samefile(path_or_stream, path)):
            shutil.copyfile(os.fsencode(path_or_stream), path)

    def tag(self, key: "str", value: "str | None" = None) -> "None":
        """Kept as a logged value, ``tag.<key>``."""
        holdfast.log(f"tag.{key}", value)

    def flush(self, timeout_seconds: "float" = 300) -> "None":
        """Everything is written already."""

    def complete(self) -> "None":
        """The run is complete when the script has ended well."""


def _keep_picture(name: "str", path: "str | None", plot: "Plot | None") -> "str":
    if plot is not None:
        drawn = io.BytesIO()
        plot.savefig(drawn, format="png")
        return outputs.write_new(name, ".png", drawn.getvalue())
    if path is None:
        raise ValueError("log_image needs a path or a plot")
    there_already = outputs.name_within(path)
    if there_already:
        return there_already
    with open(path, "rb") as source:
        return outputs.write_new(name, os.path.splitext(path)[1], source.read())
