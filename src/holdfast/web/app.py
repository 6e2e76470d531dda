"""The application behind the gate: what pages share, how errors look, and the routes."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import jinja2
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from holdfast import lifecycle
from holdfast._version import __version__
from holdfast.errors import HoldfastError, UnreachableError
from holdfast.present import terminal
from holdfast.present.output import as_json
from holdfast.runner.decoding import readable
from holdfast.web import languages, servers
from holdfast.web.history import History
from holdfast.web.live import Live
from holdfast.web.terminal.prompts import Prompts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import TypeVar

    from starlette.requests import Request

    from holdfast.store.home import Home
    from holdfast.web.sessions import Sessions

    Answer = TypeVar("Answer")

_HERE = os.path.dirname(os.path.abspath(__file__))
_MOST_FIELDS = 2000
_LONGEST_S = 1e12
_CLASSES = {
    lifecycle.COMPLETED: "good",
    lifecycle.FAILED: "bad",
    lifecycle.LOST: "bad",
    lifecycle.RUNNING: "live",
    "Damaged": "bad",
}
# State by shape and word besides colour.
_MARKS = {"good": "✓", "bad": "✗", "live": "▶", "other": "○"}


class Workbench:
    """What every page uses: the store, the index, live news, and the language and theme that were chosen."""

    def __init__(
        self, home: Home, folder: str, sessions: Sessions, *, read_only: bool, has_prompts: bool = False
    ) -> None:
        self.home = home
        self.folder = folder
        self.sessions = sessions
        self.read_only = read_only
        self.roots: dict[str, str] = {}  # of the projects that pages have shown, by the id that they had then
        self.history = History(home)
        self.live = Live(home, self.history)
        self.prompts = Prompts(home, self.live.tell) if has_prompts else None
        self.is_stopping: Callable[[], bool] = lambda: False
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(f"{_HERE}/templates"),
            autoescape=True,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        self._environment.filters.update(
            bytes=lambda value: terminal.human_bytes(value) if isinstance(value, (int, float)) else "",
            duration=lambda value: terminal.human_duration(value) if isinstance(value, (int, float)) else "",
            state=state_class,
            mark=lambda status: _MARKS[state_class(status)],
            exact=escape,
            time=lambda text: f"{str(text)[:19].replace('T', ' ')} UTC" if text else "",
        )

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        preferences = servers.preferences(self.home)
        language = languages.choose(preferences.get("language", ""), request.headers.get("accept-language", ""))
        text = self._environment.get_template(template).render(
            _=lambda message: languages.translate(language, message),
            language=language,
            theme=preferences.get("theme", "system"),
            shortcuts=preferences.get("shortcuts", "on"),
            here=request.scope["path"],
            read_only=self.read_only,
            has_prompts=self.prompts is not None,
            version=__version__,
            address=address,
            **values,
        )
        return HTMLResponse(text, status)


def state_class(status: object) -> str:
    return _CLASSES.get(str(status), "other")


def address(path: str, **query: object) -> str:
    """A path of ours with a query; empty values are left out."""
    chosen = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(chosen)}" if chosen else path


def _visible(value: object) -> object:
    """Text as it can be seen: control characters and direction marks are written as escapes."""
    if not isinstance(value, str) or isinstance(value, Markup) or (value.isascii() and value.isprintable()):
        return value
    return "\n".join("\t".join(map(terminal.show, line.split("\t"))) for line in value.split("\n"))


def json_answer(value: object, status: int = 200) -> Response:
    """JSON as the command line prints it."""
    return Response(as_json(value), status, media_type="application/json")


async def form(request: Request) -> dict[str, str]:
    """The fields of a form. No other kind of body is read: no uploads, no JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise HTTPException(415, "only forms are accepted")
    body = readable(await request.body())
    try:
        fields = parse_qsl(body, keep_blank_values=True, max_num_fields=_MOST_FIELDS, strict_parsing=bool(body))
    except ValueError as error:
        raise HTTPException(400, "the form cannot be read") from error
    return dict(fields)


async def in_thread(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Work that blocks, beside the event loop."""
    return await run_in_threadpool(function, *arguments)


def whole(text: str | None, default: int, most: int = 1 << 53) -> int:
    """A number of a query; the default for anything else."""
    return min(int(text), most) if text and text.isascii() and text.isdigit() and len(text) < 17 else default


def seconds(text: str | None) -> float | None:
    """A time of a query; None also for what is no time, such as ``nan``."""
    try:
        value = float(text) if text else math.nan
    except ValueError:
        return None
    return value if abs(value) < _LONGEST_S else None


def workbench(request: Request) -> Workbench:
    result: Workbench = request.app.state.workbench
    return result


def make_app(bench: Workbench) -> Starlette:
    from holdfast.web.routes import ROUTES, as_routes

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        if bench.prompts is not None:
            bench.prompts.close()
        bench.live.close()
        bench.history.close()

    app = Starlette(
        routes=as_routes(ROUTES),
        lifespan=lifespan,
        exception_handlers={HoldfastError: _failed, HTTPException: _refused, OSError: _system_failed},
    )
    app.state.workbench = bench
    return app


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return _problem(request, 503 if isinstance(error, UnreachableError) else 400, error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _problem(request, error.status_code, HoldfastError(error.detail))


async def _system_failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else ""
    status = 404 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 500
    return _problem(request, status, HoldfastError("the system refused this", where=where, answer=str(error.strerror)))


def _problem(request: Request, status: int, error: HoldfastError) -> Response:
    facts = {"error": error.what, "where": error.where, "answer": error.answer, "hint": error.hint}
    if request.scope["path"].endswith(".json") or "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(facts, status)
    return workbench(request).page(request, "error.html", status, error=error)
