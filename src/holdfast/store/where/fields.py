"""The fixed fields of a run that a query may name, with their columns and types (pure)."""

from __future__ import annotations

# Kinds: text; number; truth; duration (seconds, or text such as 2h).
FIELDS = {
    "arguments": "text",
    "branch": "text",
    "commit": "text",
    "created_utc": "text",
    "dirty": "truth",
    "duration": "duration",
    "end_time_utc": "text",
    "environment": "text",
    "exit_code": "number",
    "experiment_id": "text",
    "gpu.name": "text",
    "gpu.verdict": "text",
    "hidden": "truth",
    "host": "text",
    "name": "text",
    "parent_run_id": "text",
    "reason": "text",
    "run_configuration": "text",
    "run_id": "text",
    "run_number": "number",
    "script_name": "text",
    "start_time_utc": "text",
    "status": "text",
    "target": "text",
    "uid": "text",
    "user": "text",
}
# Headings of the table of runs that are not fields, with the field that they show.
HEADINGS = {"age": "created_utc", "author": "user", "run": "run_number", "script": "script_name"}
IN_ROW = tuple(name for name in FIELDS if name != "arguments")  # long text lies apart, so that rows are quick to pass
KEY_SHIFT = 32  # a value's key in the index is its name's number, then its run's
_LONGEST_TEXT = 1000  # characters of a value; the run itself has all of them


def column(field: str) -> str:
    """The column of a fixed field; never a name from the user."""
    return f'"{field.replace(".", "_")}"'


def storable(text: str) -> str:
    """Text that a database takes: halves of surrogate pairs replaced, and not too long."""
    return text[:_LONGEST_TEXT].encode("utf-8", "replace").decode()
