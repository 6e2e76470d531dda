"""``holdfast config``"""

from __future__ import annotations

import json
import sys

from holdfast import settings
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.runner.store.files import write_whole
from holdfast.store.home import open_home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed


def config(parsed: Parsed) -> int:
    home = open_home()
    key, value = parsed.text("key"), parsed.text("value")
    if key and (value is not None or parsed.flag("unset")):
        with home.lock("settings"):
            changed = settings.change(home.settings, key, None if parsed.flag("unset") else value)
            write_whole(home.settings, json.dumps(changed, indent=2).encode() + b"\n")
        return 0
    values = settings.read(home.settings)
    if key:
        settings.change(home.settings, key, None)
        sys.stdout.write(f"{show(str(values[key]))}\n")
        return 0
    rows = [
        {"setting": name, "value": values[name], "what": settings.SETTINGS[name].help} for name in settings.SETTINGS
    ]
    emit(rows, fmt=parsed.text("output"), query=parsed.text("query"), columns=("setting", "value", "what"))
    return 0
