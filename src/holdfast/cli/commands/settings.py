"""``holdfast config``"""

from __future__ import annotations

import json
import sys

from holdfast import settings
from holdfast.present.output import emit
from holdfast.present.terminal import is_tty, show, width
from holdfast.runner.store.files import write_whole
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json


def config(parsed: Parsed) -> int:
    key, value = parsed.text("key"), parsed.text("value")
    is_change = bool(key) and (value is not None or parsed.flag("unset"))
    home = open_home(create=is_change)
    if key and is_change:
        with home.lock("settings"):
            changed = settings.change(home.settings, key, None if parsed.flag("unset") else value)
            write_whole(home.settings, json.dumps(changed, indent=2).encode() + b"\n")
        return 0
    values = settings.read(home.settings)
    if key:
        settings.change(home.settings, key, None)
        sys.stdout.write(f"{show(str(values[key]))}\n")
        return 0
    rows: list[Json] = [
        {"setting": name, "value": values[name], "what": settings.SETTINGS[name].help} for name in settings.SETTINGS
    ]
    if not (parsed.text("output") or parsed.text("query")) and is_tty(sys.stdout):
        _print(rows, width(sys.stdout))
    else:
        emit(rows, **parsed.form(), columns=("setting", "value", "what"))
    return 0


def _print(rows: list[Json], columns: int) -> None:
    """Each setting in a line, and what it does below: a table would cut that."""
    import textwrap

    widest = max(len(str(row["setting"])) for row in rows)
    for row in rows:
        value = "" if row["value"] is None else str(row["value"])
        sys.stdout.write(f"{show(str(row['setting'])):{widest}}  {show(value)}".rstrip() + "\n")
        for line in textwrap.wrap(str(row["what"]), max(columns - 4, 20)):
            sys.stdout.write(f"    {line}\n")
