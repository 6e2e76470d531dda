"""Every route of the server, as data. All of them are behind the gate; tests walk this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from starlette.routing import Route

from holdfast.web.pages import (
    account,
    assets,
    code,
    compare,
    files,
    jobs,
    log,
    outputs,
    projects,
    prompt,
    run,
    runs,
    settings,
    submit,
    targets,
)

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
    Page("/points.json", runs.points, "numbers of the grid's runs, axis by axis, for its charts"),
    Page("/names.json", runs.names, "what can be a column or an axis"),
    Page("/runs.csv", runs.as_csv, "the grid, or some of its runs, as CSV"),
    Page("/labels", runs.labels, "tag or archive several runs", post=True),
    Page("/views", runs.save_view, "save a view of the grid, or remove one", post=True),
    Page("/runs/{uid}", run.page, "Run"),
    Page("/runs/{uid}.json", run.as_json, "the same, as `history info -o json` prints it"),
    Page("/runs/{uid}/curves.json", run.curves, "metric and GPU series of a time range, downsampled"),
    Page("/runs/{uid}/log", log.page, "Log"),
    Page("/runs/{uid}/log.json", log.lines, "lines of the log at a byte offset or line number"),
    Page("/runs/{uid}/log.txt", log.text, "the bytes of the log"),
    Page("/runs/{uid}/search.json", log.search, "matches in the log"),
    Page("/runs/{uid}/picture", run.picture, "a logged picture"),
    Page("/runs/{uid}/code", code.page, "Code: the snapshot of a run, and what has changed since"),
    Page("/runs/{uid}/code.json", code.as_json, "the same, as JSON"),
    Page("/runs/{uid}/restore", code.restored, "restore the project to the run's code", post=True),
    Page("/runs/{uid}/passport", run.passport, "the signed archive of the run", post=True),
    Page("/runs/{uid}/cancel", run.cancel, "cancel the run", post=True),
    Page("/runs/{uid}/reproduce", run.reproduce, "run it again and compare the metrics, line by line", post=True),
    Page("/runs/{uid}/labels", run.labels, "change tags, note or archived state", post=True),
    Page("/jobs", jobs.page, "Jobs: open runs of all projects"),
    Page("/jobs.json", jobs.as_json, "the same, as JSON"),
    Page("/runs/{uid}/outputs", outputs.page, "Outputs: a file that the run left"),
    Page("/runs/{uid}/outputs.json", outputs.as_json, "what that page shows, as JSON"),
    Page("/runs/{uid}/file", outputs.raw, "the bytes of that file, inert"),
    Page("/runs/{uid}/fetch", outputs.fetch, "fetch a file that stayed on the target", post=True),
    Page("/compare", compare.page, "Compare"),
    Page("/compare.json", compare.as_json, "the same, as `history compare -o json` prints it"),
    Page("/compare.html", compare.share, "the same as one file that works offline"),
    Page("/projects", projects.page, "Projects and the gallery"),
    Page("/projects.json", projects.as_json, "the same projects, as JSON"),
    Page("/new-project", projects.create, "create a project from the gallery", post=True),
    Page("/add-folder", projects.add, "add a folder", post=True),
    Page("/projects/{project}", projects.dashboard, "Dashboard"),
    Page("/projects/{project}.json", projects.dashboard_as_json, "the same, as JSON"),
    Page("/projects/{project}/run", submit.page, "Run dialog with the plan of `submit --dry-run`"),
    Page("/projects/{project}/run.json", submit.as_json, "the plan, as JSON"),
    Page("/projects/{project}/preflight", submit.preflight, "what the target says to the plan", post=True),
    Page("/projects/{project}/submit", submit.start, "start the run", post=True),
    Page("/projects/{project}/files", files.page, "Files"),
    Page("/projects/{project}/files.json", files.as_json, "the same, as JSON"),
    Page("/projects/{project}/save", files.save, "save an edited text file", post=True),
    Page("/projects/{project}/save-form", files.save_form, "change keys of a configuration file", post=True),
    Page("/projects/{project}/targets/{name}/check", targets.check, "test a target, step by step", post=True),
    Page("/projects/{project}/targets/{name}/prepare", targets.prepare, "build the environment there", post=True),
    Page("/projects/{project}/targets/{name}/detach", targets.detach, "remove a target's files", post=True),
    Page("/attach", targets.attach, "show a machine's host key; with the key, attach it", post=True),
    Page("/projects/{project}/prompt", prompt.open_in_project, "open a command prompt in the project", post=True),
    Page("/runs/{uid}/prompt", prompt.open_beside_run, "open a command prompt beside the run", post=True),
    Page("/prompts", prompt.listing, "Command prompts that are open"),
    Page("/prompts.json", prompt.listing_as_json, "the same, as JSON"),
    Page("/prompts/{id}", prompt.page, "Command prompt"),
    Page("/prompts/{id}.json", prompt.as_json, "its screen, as JSON"),
    Page("/prompts/{id}/keys", prompt.keys, "type into it", post=True),
    Page("/prompts/{id}/close", prompt.close, "end it", post=True),
    Page("/targets", targets.page, "Targets"),
    Page("/targets.json", targets.as_json, "the same targets, as JSON"),
    Page("/help", settings.help_page, "Help and keyboard shortcuts"),
    Page("/help.json", settings.help_as_json, "the same, as JSON"),
    Page("/settings", settings.page, "Settings"),
    Page("/settings.json", settings.as_json, "the same, as `config -o json` prints them"),
    Page("/settings/save", settings.save, "change theme, language or a setting", post=True),
)


def as_routes(pages: Sequence[Page]) -> list[Route]:
    """The more exact paths first: `.json` names a twin and is no part of an id."""
    ordered = sorted(pages, key=lambda page: (not page.path.endswith((".json", ".txt", ".csv")), page.path))
    return [Route(page.path, page.handler, methods=["POST"] if page.post else ["GET"]) for page in ordered]
