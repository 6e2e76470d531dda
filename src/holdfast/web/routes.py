"""Every route of the server, as data. All of them are behind the gate; tests walk this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.routing import Route

from holdfast.web.pages import account, assets, jobs, log, run, runs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response


class Page(NamedTuple):
    """``post``: the route changes something and answers POST alone; the others answer GET and HEAD alone."""

    path: str
    handler: Callable[[Request], Awaitable[Response]]
    summary: str
    post: bool = False


ROUTES = (
    Page("/", account.first, "redirect to the runs"),
    Page("/sign-in", account.sign_in, "exchange a code for a session", post=True),
    Page("/sign-out", account.sign_out, "end the session", post=True),
    Page("/static/{name}", assets.static, "style sheets and scripts of the package"),
    Page("/events", runs.events, "server-sent events: what changed"),
    Page("/runs", runs.page, "Runs: the grid"),
    Page("/runs.json", runs.as_json, "the same runs, as `history list -o json` prints them"),
    Page("/rows.json", runs.rows, "some rows of the grid"),
    Page("/runs/{uid}", run.page, "Run"),
    Page("/runs/{uid}.json", run.as_json, "the same, as `history info -o json` prints it"),
    Page("/runs/{uid}/curves.json", run.curves, "metric and GPU series of a time range, downsampled"),
    Page("/runs/{uid}/log", log.page, "Log"),
    Page("/runs/{uid}/log.json", log.lines, "lines of the log at a byte offset or line number"),
    Page("/runs/{uid}/log.txt", log.text, "the bytes of the log"),
    Page("/runs/{uid}/search.json", log.search, "matches in the log"),
    Page("/runs/{uid}/cancel", run.cancel, "cancel the run", post=True),
    Page("/runs/{uid}/labels", run.labels, "change tags, note or archived state", post=True),
    Page("/jobs", jobs.page, "Jobs: open runs of all projects"),
    Page("/jobs.json", jobs.as_json, "the same, as JSON"),
)


def as_routes(pages: Sequence[Page]) -> list[Route]:
    """The more exact paths first: `.json` names a twin and is no part of an id."""
    ordered = sorted(pages, key=lambda page: (not page.path.endswith((".json", ".txt")), page.path))
    return [Route(page.path, page.handler, methods=["POST"] if page.post else ["GET"]) for page in ordered]
