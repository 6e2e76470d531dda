"""Settings: theme and language of the pages, and the user's settings as `holdfast config` has them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse

from holdfast import settings
from holdfast.runner.store.files import write_whole
from holdfast.web import languages, servers
from holdfast.web.app import form, in_thread, json_answer, workbench

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from holdfast.model import Json
    from holdfast.store.home import Home

THEMES = ("system", "light", "dark")
SHORTCUTS = (
    ("?", "Help"),
    ("/", "Search"),
    ("g p", "Projects"),
    ("g r", "Runs"),
    ("g j", "Jobs"),
    ("g t", "Targets"),
    ("g s", "Settings"),
    ("j · k", "Next or previous row"),
    ("x", "Select run"),
    ("c", "Compare"),
    ("← →", "Move the cursor of the curves"),
    ("Ctrl+S", "Save"),
)
FILTERS = (
    "accuracy > 0.9",
    "params.lr < 0.01 and status = 'Completed'",
    "duration > '2h'",
    "tags.dataset = 'v3'",
    "script_name like '%train%'",
)


async def page(request: Request) -> Response:
    bench = workbench(request)
    return bench.page(
        request,
        "settings.html",
        rows=_rows(bench.home),
        languages=languages.NAMES,
        chosen=servers.preferences(bench.home),
        store=bench.home.path,
    )


async def as_json(request: Request) -> Response:
    return json_answer(_rows(workbench(request).home))


async def help_page(request: Request) -> Response:
    return workbench(request).page(request, "help.html", shortcuts_known=SHORTCUTS, filters=FILTERS)


async def help_as_json(_request: Request) -> Response:
    shortcuts = [{"keys": keys, "what": what} for keys, what in SHORTCUTS]
    return json_answer({"shortcuts": shortcuts, "filters": FILTERS})


async def save(request: Request) -> Response:
    bench, fields = workbench(request), await form(request)
    await in_thread(_save, bench.home, fields)
    return RedirectResponse("/settings", 303)


def _rows(home: Home) -> list[Json]:
    values = settings.read(home.settings)
    return [{"setting": name, "value": values[name], "what": known.help} for name, known in settings.SETTINGS.items()]


def _save(home: Home, fields: dict[str, str]) -> None:
    if fields.get("theme") in THEMES:
        servers.prefer(home, theme=fields["theme"])
    if "language" in fields:
        servers.prefer(home, language=fields["language"] if fields["language"] in languages.NAMES else "")
    if fields.get("shortcuts") in ("on", "off"):
        servers.prefer(home, shortcuts=fields["shortcuts"])
    name = fields.get("setting")
    if name:
        with home.lock("settings"):
            changed = settings.change(home.settings, name, fields.get("value", ""))
            write_whole(home.settings, json.dumps(changed, indent=2).encode() + b"\n")
