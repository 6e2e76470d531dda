"""``holdfast reproduce``"""

from __future__ import annotations

import os
import sys

from holdfast import lifecycle, target_lookup
from holdfast import project as projects
from holdfast.amlconfig.types import RunConfig
from holdfast.cli import pick
from holdfast.cli.confirm import choose, confirm
from holdfast.cli.reproduction import Reproduction
from holdfast.cli.reproduction_outcome import Outcome
from holdfast.engine.runs.restore import restore_into
from holdfast.engine.runs.run_target import target_of
from holdfast.engine.submit import reproduce as engine
from holdfast.engine.submit.job import link
from holdfast.errors import UsageError
from holdfast.metrics import reader
from holdfast.model import Project
from holdfast.present.output import emit
from holdfast.present.terminal import show
from holdfast.runner.store import layout
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store import package_list, runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.engine.submit.reproduce import Verdict
    from holdfast.model import Job, Json
    from holdfast.store.home import Home
    from holdfast.store.runs import Run
    from holdfast.target_lookup import Chosen

_COLUMNS = ("metric", "before", "after", "difference", "same")


def reproduce(parsed: Parsed) -> int:
    tolerance = _tolerance(parsed.text("tolerance") or "")
    home, run = pick.run(parsed)
    plan = _plan(run)
    recorded, allow_urls = _recorded(run) if parsed.flag("recorded") else None, parsed.flag("allow_urls")
    if allow_urls and recorded is None:
        raise UsageError("--allow-urls is only used with --recorded-packages")
    before = reader.read_attempts(runs.metric_folders(run))
    names = engine.names_to_judge(before, parsed.texts("metrics"))
    folder = os.path.join(layout.cache(home.path), f"reproduce-{run.uid}-{os.getpid()}")
    os.makedirs(os.path.dirname(folder), 0o700, exist_ok=True)
    try:
        restore_into(home, run, folder)
        chosen = _chosen(parsed, home, run, folder)
        env = engine.variables(plan, chosen.config.environment_variables or {}, _given(parsed))
        links = tuple(link(folder, text) for text in parsed.texts("link"))
        config, target = chosen.config.name, chosen.compute.name
        job = engine.job_again(run, plan, config=config, target=target, env=env, links=links)
        if recorded is not None:
            job = job._replace(python=None, interpreter={"origin": "project", "why": "--recorded-packages"})
        _refuse_without_python(run, chosen, job)
        _confirm_data(home, run, chosen, job)
        project = _project(run, folder)
        uid, code = Reproduction(home, run, plan, chosen, recorded, allow_urls=allow_urls).run(project, folder, job)
    finally:
        remove_tree(os.fsencode(folder))
    again = runs.read(home, uid)
    after = reader.read_attempts(runs.metric_folders(again))
    verdicts = engine.judge(before, after, names, tolerance)
    outcome = Outcome(run, again, code, verdicts, tolerance)
    _tell(parsed, outcome)
    return 0 if outcome.is_same else 1


def _tolerance(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise UsageError(f"--tolerance {text}: not a number between 0 and 1", hint="--tolerance 0.01 is one percent")
    return value


def _plan(run: Run) -> Json:
    where = str(run.request.get("run_id"))
    if lifecycle.state_of(run.events) not in lifecycle.FINAL:
        from shlex import quote

        hint = f"holdfast logs -f -r {quote(where)} waits for it"
        raise UsageError("this run has not ended", where=where, hint=hint)
    plan = runs.read_plan(run)
    if plan is None or not run.request.get("tree"):
        raise UsageError("this run has no stored plan or code", where=where, hint="was it imported?")
    return plan


def _recorded(run: Run) -> Json:
    packages = package_list.read(run)
    if packages is None:
        where = str(run.request.get("run_id"))
        raise UsageError("--recorded-packages: no packages were recorded for this run", where=where)
    return packages


def _chosen(parsed: Parsed, home: Home, run: Run, folder: str) -> Chosen:
    """The run configuration and target as the snapshot has them; with -c those of the project as it is now."""
    config_name = parsed.text("config")
    if config_name is not None:
        root = projects.find(parsed.text("project") or os.getcwd()).root
        return choose(home.path, root, config_name)
    config, target = str(run.request.get("config")), str(run.request.get("target"))
    now = os.path.join(str(run.request.get("project_root")), "aml_config")
    places = (os.path.join(folder, "aml_config"), now, layout.targets(home.path))
    try:
        chosen = target_lookup.choose(places, config, target)
    except UsageError:  # their files are gone; the run remembers how its target was reached
        compute = target_of(run.request, home.path).compute
        chosen = target_lookup.Chosen(RunConfig(name=config, target=target, framework="Python"), compute, [])
    confirm(home.path, str(run.request.get("project_root")), chosen)
    return chosen


def _confirm_data(home: Home, run: Run, chosen: Chosen, job: Job) -> None:
    """The record of an imported run was written by someone else: what it names is confirmed as that of a project."""
    if job.data and run.request.get("imported"):
        from holdfast.amlconfig.types import DataEntry

        entries = tuple(DataEntry(data.name, data.source, data.path_on_target) for data in job.data)
        as_configured = chosen._replace(config=chosen.config._replace(data=entries))
        confirm(home.path, str(run.request.get("project_root")), as_configured)


def _refuse_without_python(run: Run, chosen: Chosen, job: Job) -> None:
    """The run used an interpreter of this machine as it was, and it was removed since."""
    if chosen.compute.kind.is_remote or not job.python or os.path.exists(job.python) or not os.path.isabs(job.python):
        return
    hint = f"holdfast reproduce -r {run.request.get('run_number')} --recorded-packages builds an environment like it"
    if package_list.read(run) is None:
        hint = "make this environment again"
    raise UsageError("the Python that this run used no longer exists", where=job.python, hint=hint)


def _project(run: Run, folder: str) -> Project:
    """The project that the run was of; its names for the share path are in its files."""
    request = run.request
    project = projects.find(folder)
    named = Project(str(request.get("project_root")), str(request.get("project_id")), str(request.get("project")))
    return named if project.root != folder else named._replace(account=project.account, workspace=project.workspace)


def _given(parsed: Parsed) -> dict[str, str]:
    variables = {}
    for word in parsed.texts("env"):
        name, equals, value = word.partition("=")
        if not equals and name not in os.environ:
            raise UsageError(f"-e {name}: this shell has no variable {name}", hint=f"-e {name}=VALUE")
        variables[name] = value if equals else os.environ[name]
    for name in parsed.texts("secret"):
        from holdfast.cli.dialog import TerminalDialog

        variables[name] = os.environ[name] if name in os.environ else TerminalDialog().secret(name)
    return variables


def _tell(parsed: Parsed, outcome: Outcome) -> None:
    rows: list[Json] = [{"metric": verdict.name, **_without_name(verdict)} for verdict in outcome.verdicts]
    form = parsed.text("output")
    if form in ("table", "tsv", "csv") or (form is None and sys.stdout.isatty()):
        if rows or form != "table":
            emit(rows, **parsed.form(), columns=_COLUMNS)
    else:
        document = {**outcome.document(), "tolerance": outcome.tolerance, "metrics": rows}
        emit(document, **parsed.form())
    sys.stdout.flush()
    numbers = f"run {outcome.again.request.get('run_number')}, of run {outcome.run.request.get('run_number')}"
    sys.stderr.write(f"{numbers}: {show(outcome.message())}\n")
    if not rows:
        hint = "submit with --scalars to record the numbers that the script prints, or log them with holdfast.log"
        sys.stderr.write(f"  {hint}; --metric NAME compares a metric of time or speed\n")


def _without_name(verdict: Verdict) -> Json:
    return {"before": verdict.before, "after": verdict.after, "difference": verdict.difference, "same": verdict.same}
