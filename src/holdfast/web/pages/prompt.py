"""Command prompt: a shell in a project, or on the target beside a run. Only with ``holdfast ui --terminal``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from holdfast.web import known_projects
from holdfast.web.app import form, in_thread, json_answer, whole, workbench

if TYPE_CHECKING:
    from starlette.requests import Request

    from holdfast.web.terminal.prompts import Prompt, Prompts

_MOST_KEYS = 100_000


async def listing(request: Request) -> Response:
    return workbench(request).page(request, "prompts.html", prompts=_prompts(request).every())


async def listing_as_json(request: Request) -> Response:
    return json_answer([_row(prompt) for prompt in _prompts(request).every()])


async def page(request: Request) -> Response:
    return workbench(request).page(request, "prompt.html", prompt=_prompt(request))


async def as_json(request: Request) -> Response:
    return json_answer(_prompt(request).shown())


async def open_in_project(request: Request) -> Response:
    """What ``holdfast shell`` opens."""
    prompts = _prompts(request)
    known = await known_projects.of(workbench(request), request.path_params["project"])
    return _opened(prompts.open(known.name, "shell", "--project", known.root))


async def open_beside_run(request: Request) -> Response:
    """What ``holdfast ssh -r RUN`` opens: a shell on the run's target, in its folder."""
    prompts = _prompts(request)
    run = await workbench(request).history.run(request.path_params["uid"])
    title = f"{run.request.get('target')}: {run.request.get('run_id')}"
    return _opened(prompts.open(title, "ssh", "-r", run.uid))


async def keys(request: Request) -> Response:
    """What was typed, and how large the page's screen is."""
    fields, prompt = await form(request), _prompt(request)
    if "rows" in fields:
        prompt.resize(whole(fields["rows"], 24, 1000), whole(fields.get("columns"), 80, 1000))
    typed = fields.get("keys", "").encode("utf-8", "surrogatepass")
    if len(typed) > _MOST_KEYS:
        raise HTTPException(413, "too much text at once")
    if typed:
        await in_thread(prompt.send, typed)
    return Response(status_code=204)


async def close(request: Request) -> Response:
    _prompt(request).close()
    return RedirectResponse("/prompts", 303)


def _opened(prompt: Prompt) -> Response:
    return RedirectResponse(f"/prompts/{prompt.id}", 303)


def _prompt(request: Request) -> Prompt:
    return _prompts(request).of(request.path_params["id"])


def _prompts(request: Request) -> Prompts:
    """The one place that decides: without ``--terminal`` there are none."""
    prompts = workbench(request).prompts
    if prompts is None:
        raise HTTPException(403, "command prompts are off; start the server with holdfast ui --terminal")
    return prompts


def _row(prompt: Prompt) -> dict[str, object]:
    return {"id": prompt.id, "title": prompt.title, "started": prompt.started, "ended": prompt.has_ended}
