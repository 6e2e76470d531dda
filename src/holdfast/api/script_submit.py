"""``holdfast.submit``: start a script on a target and return at once."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TypedDict

from holdfast import labels
from holdfast.api.dialog import ProgramDialog, warn
from holdfast.api.documented_errors import documented_errors
from holdfast.api.option_checks import check_options, checked_path, data_options, script_arguments
from holdfast.api.progress import listener
from holdfast.api.run_handle import Run
from holdfast.engine.connection.reconnect import Line
from holdfast.engine.submit.job import Asked
from holdfast.engine.submit.prepare import Order, prepare, reach
from holdfast.engine.submit.session import Session
from holdfast.ledger import Stopwatch, now_ns
from holdfast.store.home import open_home

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Unpack

    from holdfast.api.progress import OnProgress

    StrPath = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The keywords of ``submit`` and ``remote``; each is the option of ``holdfast submit`` of that name."""

    target: str | None
    config: str | None
    project: StrPath | None
    env: Mapping[str, str] | None
    env_files: Sequence[StrPath]
    secrets: Sequence[str]
    links: Sequence[str]
    data: Mapping[str, StrPath | Mapping[str, str]] | None
    environment: str | None
    python: StrPath | None
    gpus: int | str | None
    require_gpu: bool
    wait_for_gpu: str | float | None
    timeout: str | float | None
    grace: str | float | None
    retries: int
    notify: str | None
    scalars: bool
    capture: bool
    keep_limit: str | int | None
    keep_work: bool
    skip_unreadable: bool
    large: bool
    name: str | None
    tags: Mapping[str, object] | None
    progress: OnProgress | bool | None


@documented_errors
def submit(script: StrPath, *arguments: object, **options: Unpack[Options]) -> Run:
    """Start a script on a target and return its run, without waiting for it.

    ``arguments`` are passed to the script, each as ``str``. The keywords are the options of ``holdfast submit``:

    target, config          a target or run configuration, as ``-c`` takes it; by default the setting ``defaultTarget``
    project                 the project's folder; by default the current one
    environment, python     ``"project"``, ``"active"`` or ``"none"``; an interpreter
    env, env_files, secrets a dict of variables; files with variables; names of variables whose values are not stored
    gpus, require_gpu, wait_for_gpu
    timeout, grace          seconds, or text such as ``"2h"``
    data                    a dict of names and folders or files: sent once per target, found at ``data/NAME``;
                            ``{"path_on_target": "/path"}`` for what is there already
    retries, notify, links, scalars, keep_work, skip_unreadable
    keep_limit              bytes, or text such as ``"2GB"``, of files outside outputs/ that are kept
    capture                 False does not record what the script logs with MLflow, wandb, TensorBoard or Lightning
    large                   True stores more than a gigabyte of new files
    name, tags              a name of the run; a dict of tags
    progress                is called with ``Progress`` objects; True shows a bar

    What a target asks for and is not confirmed is a ``ConfigError`` that names the command to confirm it.
    """
    check_options("submit", options)
    return submit_words((checked_path("script", script), *script_arguments(arguments)), None, options)


def submit_words(argv: tuple[str, ...], files: Mapping[str, bytes] | None, options: Options) -> Run:
    """Submit a script with its arguments; ``files`` are added to the run's snapshot and not to the project."""
    dialog = ProgramDialog(listener(options.get("progress")), large=options.get("large", False))
    stopwatch = Stopwatch(now_ns())
    prepared = prepare(_order(argv, files, options), dialog, _environ())
    home = open_home()
    stopwatch.lap("begin")
    line = reach(home, prepared, lambda: Line(home, prepared.target, dialog.lost, dialog.back), dialog)
    try:
        stopwatch.lap("connect")
        stopwatch.waited = lambda: line.waited_ns
        session = Session(home, prepared, line, stopwatch, dialog, lambda _identity: None)
        plan, taken = session.run(skip_unreadable=options.get("skip_unreadable", False))
    finally:
        line.close()
    for message in taken.warnings:
        warn(message)
    return Run(home, plan.uid, restart=True, on_end=prepared.job.on_end)


def _order(argv: tuple[str, ...], files: Mapping[str, bytes] | None, options: Options) -> Order:
    python = options.get("python")
    typed = Asked(
        words=argv,
        folder=os.path.abspath(options.get("project") or os.getcwd()),
        env=tuple(f"{name}={value}" for name, value in (options.get("env") or {}).items()),
        env_files=tuple(os.fspath(path) for path in options.get("env_files", ())),
        secrets=tuple(options.get("secrets", ())),
        links=tuple(options.get("links", ())),
        data=data_options(options.get("data") or {}),
        timeout=_text(options.get("timeout")),
        grace=_text(options.get("grace")),
        notify=options.get("notify"),
        keep_work=options.get("keep_work", False),
        scalars=options.get("scalars", False),
        keep_limit=_text(options.get("keep_limit")),
        no_capture=not options.get("capture", True),
        name=None if (name := options.get("name")) is None else labels.checked_name(name),
        tags={name: value for name, value in (options.get("tags") or {}).items() if value is not None},
        retries=_text(options.get("retries") or None),
        gpus=_text(options.get("gpus")),
        require_gpu=options.get("require_gpu", False),
        wait_for_gpu=_text(options.get("wait_for_gpu")),
        files=files,
    )
    target, config = options.get("target"), options.get("config")
    if config is None:
        target, config = None, target  # as -c: a run configuration, or a target
    return Order(typed, config, target, options.get("environment"), None if python is None else os.fspath(python))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _environ() -> Mapping[str, str]:
    """The environment variables, with the environment of this interpreter as the active one.

    A kernel of a notebook and ``.venv/bin/python script.py`` use an environment that no shell has activated.
    """
    if sys.prefix != sys.base_prefix:
        return {**os.environ, "VIRTUAL_ENV": sys.prefix}
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        return {**os.environ, "CONDA_PREFIX": sys.prefix}
    return os.environ
