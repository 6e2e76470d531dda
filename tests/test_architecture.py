"""The rules of docs/architecture.md, checked against the source itself."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.requirements import Requirement

from holdfast import kinds
from holdfast.amlconfig import compute, runconfig
from holdfast.cli.parse import GLOBAL_OPTIONS
from holdfast.cli.table.commands import COMMANDS
from holdfast.engine.connection import bundle
from holdfast.engine.submit.trust_policy import TABLE
from holdfast.errors import HoldfastError
from holdfast.runner.plan import Plan
from holdfast.runner.run import notify
from holdfast.runner.run.script_process import INHERITED
from holdfast.runner.store import files, layout
from holdfast.settings import SETTINGS
from lab.pythons import OLDEST, python_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from conftest import Desk
    from holdfast.cli.parse import Command

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "holdfast"
DOCS = ROOT / "docs"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "templates" not in path.parts)
PYTHON_3_6 = [
    *(path for folder in ("runner", "compat", "script_api") for path in sorted((PACKAGE / folder).rglob("*.py"))),
]
OUR_FOLDERS = ("src", "tests", "tools", "bench", "docs", "packages", ".github", ".ci")


def test_imports_follow_the_layers() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_modules_are_short() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length >= 400} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{_name(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert {name: length for name, length in lengths.items() if length >= 40} == {}


@pytest.mark.parametrize("path", PYTHON_3_6, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_runner_modules_import_the_standard_library_only(path: Path) -> None:
    foreign = {name for name in _imported(_tree(path)) if name not in sys.stdlib_module_names}
    # bootstrap.py imports the runner that it unpacked, track.py an installed Holdfast; compat/ logs through track.py.
    # notebook.py imports packages of the run's environment, and says so where they are missing.
    allowed = {
        "runner/bootstrap.py": {"runner"},
        "runner/container/init.py": {"exec_errors", "nested_runs"},
        "script_api/notebook.py": {"ipykernel", "jupyter_client", "nbclient", "nbformat"},
        "script_api/track.py": {"holdfast"},
    }
    assert foreign <= allowed.get(_name(path), {"holdfast", "azureml"} if "compat" in path.parts else set())


def test_runner_modules_compile_on_python_3_6(tmp_path: Path) -> None:
    compiler = "import py_compile, sys\nfor path in sys.argv[2:]: py_compile.compile(path, sys.argv[1], doraise=True)"
    command = [python_of(OLDEST), "-c", compiler, str(tmp_path / "compiled"), *map(str, PYTHON_3_6)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_isinstance_check_of_hosts_launchers_or_runtimes() -> None:
    ports = {
        node.name: path
        for folder in ("hosts", "launchers", "runtimes")
        for path in (PACKAGE / folder).glob("*.py")
        for node in _tree(path).body
        if isinstance(node, ast.ClassDef)
    }
    asked = [
        f"{_name(path)}:{call.lineno} {name}"
        for path in SOURCES
        for call in ast.walk(_tree(path))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id in ("isinstance", "issubclass")
        for name in _names(call.args[1])
        if ports.get(name, path) != path
    ]
    assert ports
    assert asked == []


KNOWS_KINDS = ("kinds.py", "target_lookup.py", "amlconfig/")


def test_only_the_kinds_table_asks_what_type_a_target_is() -> None:
    """Elsewhere ``compute.kind`` answers: ``in_container``, ``is_remote``, ``over_ssh``. A ``Login`` has an address."""
    asked = [
        f"{_name(path)}:{node.lineno} {ast.unparse(node)}"
        for path in SOURCES
        if not _name(path).startswith((*KNOWS_KINDS, "runner/", "hosts/", "builder/"))
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute)
        and node.attr in ("type", "address")
        and not ast.unparse(node.value).endswith("login")
    ]
    assert asked == []


def test_only_the_kinds_table_compares_with_the_name_of_a_kind() -> None:
    """``local`` is also the name of a target, and ``docker`` that of an engine."""
    names = set(kinds.names()) - {"local", "docker"}
    compared = [
        f"{_name(path)}:{node.lineno} {ast.unparse(node)}"
        for path in SOURCES
        if not _name(path).startswith(KNOWS_KINDS)
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Compare)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and part.value in names
    ]
    assert compared == []


def test_only_launchers_ask_whether_a_run_lives() -> None:
    """The verbs of the runner that start, look at and close attempts are spoken by launchers alone."""
    verbs = {"start", "queue", "command", "look", "stop", "bury", "discard"}
    asked = {
        _name(path)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("ask", "stream", "foresee", "ask_behind")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value in verbs
    }
    assert asked == {"launchers/process.py", "launchers/queue.py"}


def test_only_the_runner_compares_boot_ids() -> None:
    """A reboot is the launcher's to notice. ``ledger`` compares them to choose the clock between two events."""
    compared = {
        _name(path)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Compare) and "boot_id" in ast.unparse(node)
    }
    assert {name for name in compared if not name.startswith("runner/")} == {"ledger.py"}


def test_commands_use_a_target_only_after_it_was_confirmed() -> None:
    """``cli.confirm.choose`` asks; only what shows a target's file or checks itself chooses without it."""
    without = {
        _name(path)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and node.attr == "choose" and ast.unparse(node.value) == "target_lookup"
    }
    shows = {"api/target_info.py", "cli/commands/targets.py", "cli/commands/trust.py"}
    checks = {"cli/confirm.py", "engine/submit/confirmation.py", "engine/runs/run_target.py", "cli/commands/power.py"}
    checks |= {"engine/submit/prepare.py", "cli/commands/environments.py", "cli/commands/reproducing.py"}
    checks |= {"web/pages/targets.py", "web/allowed.py", "engine/machines/target_files.py"}
    assert without == shows | checks


@pytest.mark.parametrize("words", ["shell" + "=True", "StrictHostKey" + "Checking=no"])
def test_source_never_contains(words: str) -> None:
    assert [_name(path) for path in SOURCES if words in path.read_text(encoding="utf-8")] == []


def test_no_file_names_the_development_folder() -> None:
    place = re.compile(r"""(?:^|[\s"'`(=:,])/""" + "work/", re.MULTILINE)
    texts = chain.from_iterable((ROOT / name).rglob("*") if (ROOT / name).is_dir() else () for name in OUR_FOLDERS)
    top = (path for path in ROOT.iterdir() if path.name != ".git")  # a file in a linked work tree
    files = [path for path in (*texts, *top) if path.is_file() and path.suffix != ".pyc"]
    assert len(files) > 100
    assert [str(path) for path in files if place.search(path.read_text(encoding="utf-8", errors="replace"))] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command.words))
def test_commands_are_documented(command: Command) -> None:
    if command.hidden:
        assert f"`az ml {' '.join(command.words)}" in _page("azure-cli.md")
        return
    _, title, section = _page("commands.md").partition(f"### {command.title}\n")
    assert title, "python tools/docs.py writes it"
    section = section.partition("\n### ")[0]
    others = [name for name in (command.words, *command.aliases) if name != command.short]
    names = [" ".join(("holdfast", *name)) for name in others]
    flags = [flag for option in command.options for flag in option.flags]
    assert [name for name in (*names, *flags) if f"`{name}`" not in section] == []


def test_global_options_are_documented() -> None:
    _assert_named("commands.md", chain.from_iterable(option.flags for option in GLOBAL_OPTIONS))


def test_errors_are_documented() -> None:
    page = _page("errors.md")
    found = list(_below(HoldfastError))
    assert found
    assert [error for error in found if f"| {error.exit_code} | `{error.__name__}` |" not in page] == []


SETTINGS_OF_KINDS = {key for name in kinds.names() for key in kinds.of(name).settings}


def test_settings_are_documented() -> None:
    _assert_named("settings.md", chain(SETTINGS, compute.KEYS, sorted(SETTINGS_OF_KINDS), runconfig.KEYS))


@pytest.mark.parametrize("kind", ["runconfig", "compute"])
def test_settings_page_says_which_keys_are_used(kind: str) -> None:
    """``no`` in the last column means that no module outside the readers looks at the value."""
    section = _page("settings.md").partition(f"### NAME.{kind}\n")[2].partition("\n###")[0]
    rows = re.findall(r"^\| (`.+?`) \| .* \| (yes|no) \|$", section, re.MULTILINE)
    documented = {key: used == "yes" for keys, used in rows for key in re.findall(r"`(\w+)`", keys)}
    own = SETTINGS_OF_KINDS if kind == "compute" else set()
    assert own or kind == "runconfig"
    assert set(documented) == {*(runconfig.KEYS if kind == "runconfig" else compute.KEYS), *own}
    # A run configuration is called config, a target compute; the fields are named like their keys.
    fields = {"conda_file": "conda_dependencies_file", "cluster": "type", "native": "type"}
    holder = re.compile(r"config$" if kind == "runconfig" else r"compute$|^target$")
    readers = {f"amlconfig/{name}.py" for name in ("types", "compute", "runconfig", "successor", "write")}
    read = {
        node.attr
        for path in SOURCES
        if _name(path) not in readers
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Attribute) and holder.search(ast.unparse(node.value))
    }
    # The settings of one kind of target are read by their name.
    fields |= {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower(): key for key in own}
    read |= {
        node.value
        for path in SOURCES
        if _name(path) not in readers | {"kinds.py"}
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and node.value in own
    }
    names = {key: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key).lower() for key in documented}
    assert documented == {key: fields.get(name, name) in read for key, name in names.items()}
    unused = {rule.key for rule in TABLE if rule.files == f".{kind}" and rule.note == "not used"}
    assert unused | {"password"} == {key for key, used in documented.items() if not used} | {"password"}


def test_environment_variables_are_documented() -> None:
    found = {name for path in SOURCES for name in _variables(_tree(path))}
    assert {"HOLDFAST_HOME", "NO_COLOR", "HOLDFAST_METRICS_DIR", "AZUREML_NATIVE_SHARE_DIRECTORY"} <= found
    _assert_named("settings.md", chain(sorted(found), INHERITED))


def test_variables_of_a_notification_are_documented(tmp_path: Path) -> None:
    variables = tmp_path / "variables"
    plan = Plan({"uid": "0" * 32, "run_id": "digits_1", "argv": ["true"], "tree": "0" * 64, "script": "train.py"})
    assert "code 0" in notify.notify(f"env > '{variables}'", plan, "failed", 1, "")
    found = set(re.findall(r"^(HOLDFAST_\w+)=", variables.read_text(), re.MULTILINE)) - set(os.environ)
    assert "HOLDFAST_STATUS" in found
    _assert_named("settings.md", sorted(found))


def _pyproject(table: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[table]
    return content


def test_dependencies_are_documented() -> None:
    """Each section of the page has a row for each requirement of its kind, and for nothing else."""
    project, groups = _pyproject("project"), _pyproject("dependency-groups")
    declared = [project["dependencies"], [*chain(*project["optional-dependencies"].values())], groups["dev"]]
    run_time, _, building = _page("dependencies.md").partition("## For building and testing")
    required, _, optional = run_time.partition("Optional, ")
    optional = optional.partition("Environments are")[0]
    for section, texts in zip((required, optional, building), declared, strict=True):
        rows = re.findall(r"^\| ([\w.]+(?:-[\w.]+)*) \|", section, re.MULTILINE)
        assert rows[1:] == sorted(Requirement(text).name for text in texts)


def test_dependencies_of_a_user_have_a_tested_range() -> None:
    """The tools of the development environment are pinned instead."""
    project, groups = _pyproject("project"), _pyproject("dependency-groups")
    texts = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    operators = {need.name: sorted(part.operator for part in need.specifier) for need in map(Requirement, texts)}
    assert operators
    assert {name: found for name, found in operators.items() if found != ["<", ">="]} == {}
    assert [text for text in groups["dev"] if not re.fullmatch(r"[\w.-]+==[\w.]+", text)] == []


def test_architecture_page_names_every_folder() -> None:
    folders = {part for path in SOURCES for part in path.relative_to(PACKAGE).parts[:-1] if "compat" not in path.parts}
    page = _page("architecture.md")
    assert sorted(name for name in folders if f"  {name}/" not in page) == []


def test_architecture_page_names_existing_modules_and_every_folder_of_tests() -> None:
    page = _page("architecture.md")
    named = {name.rstrip("/") for name in re.findall(r"`([a-z_]+/[a-z_/]*)(?:\.py)?`", page)} - {"aml_config"}
    places = (PACKAGE, PACKAGE / "engine" / "runs", ROOT)
    existing = {
        name for name in named for place in places if (place / name).is_dir() or (place / f"{name}.py").is_file()
    }
    assert len(named) > 30
    assert sorted(named - existing) == []
    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/*/test_*.py")}
    assert sorted(folder for folder in folders if folder not in page) == []


def test_every_module_has_a_purpose_in_the_module_list() -> None:
    """``make docs`` makes docs/modules.md from docstrings; tests/unit/test_docs.py checks that it is up to date."""
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", _page("modules.md"), re.MULTILINE)
    assert [name for name, purpose in rows if not purpose] == []
    modules = [path for path in SOURCES if path.stem != "__init__" and "compat" not in path.parts]
    assert sorted(name for name, _ in rows) == sorted(path.stem for path in modules)


def test_no_folder_holds_more_than_about_twenty_modules() -> None:
    folders = Counter(_name(path.parent) for path in SOURCES if path.stem != "__init__")
    assert {folder: count for folder, count in folders.items() if count > 22 and folder != "cli/commands"} == {}


@pytest.mark.parametrize("folder", ["runner/container", "runner/gpu"])
def test_modules_beside_a_program_do_not_hide_the_standard_library(folder: str) -> None:
    """Python puts the folder of a program first on its path: ``init.py`` in containers, ``probe.py`` for a GPU."""
    assert {path.stem for path in (PACKAGE / folder).glob("*.py")} & sys.stdlib_module_names == set()


def test_error_messages_in_the_documentation_exist() -> None:
    texts = {
        node.value
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 10
    }
    pages = {page.name: page.read_text("utf-8") for page in DOCS.glob("*.md") if page.name != "gpu-proof.md"}
    shown = [
        (name, line) for name, page in pages.items() for line in re.findall(r"^ *ERROR: (.*)$", page, re.MULTILINE)
    ]
    assert len(shown) > 3
    assert [(name, line) for name, line in shown if not any(text in line for text in texts)] == []


def test_record_of_own_code_has_the_right_lines() -> None:
    """A file without a folder is in that of the file before it. The record may be wrong by a tenth."""
    rows = re.findall(r"^\| ([^|]*`[^|]*) \| (\d+) \|", _page("decisions/0018-own-code-or-a-library.md"), re.MULTILINE)
    assert len(rows) > 10
    wrong = []
    for names, count in rows:
        folder, lines = PACKAGE, 0
        for name in re.findall(r"`([\w/]+(?:\.py|/))`", names):
            folder = (PACKAGE / name).parent if "/" in name else folder
            paths = sorted((PACKAGE / name).glob("*.py")) if name.endswith("/") else [folder / Path(name).name]
            lines += sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)
        if abs(lines - int(count)) > lines / 10:
            wrong.append(f"{names}: {count}, not {lines}")
    assert wrong == []


def test_links_between_pages_exist() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text("utf-8"))
    ]
    assert links
    assert [(page.name, link) for page, link in links if not _exists(page, link)] == []


def _exists(page: Path, link: str) -> bool:
    """Whether the file of a link exists and has the heading that is named after ``#``."""
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    if not anchor or not target.is_file():
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_first_screen_of_help_has_the_commands_that_are_needed_first(desk: Desk) -> None:
    lines = desk.holdfast("-h", env={"COLUMNS": "80"}).text.splitlines()
    assert max(map(len, lines)) <= 80
    first = {line.split()[0] for line in lines[:24] if line.startswith("    ")}
    assert {"submit", "runs", "info", "logs", "status", "cancel", "compare", "diff", "restore"} <= first


COSTLY = {
    "argparse",
    "dataclasses",
    "subprocess",
    "sqlite3",
    "ruamel",
    "ruamel.yaml",
    "jmespath",
    "packaging",
    "PIL",
    "tempfile",
    "logging",
    "json",
    "re",
    "enum",
}
# Each module costs about a tenth of a millisecond; a plain submit must not import more than these without a reason.
MOST_OF_CLIENT = 111
MOST_OF_LIST = 63
MOST_OF_RUNNER = 54


def test_version_imports_almost_nothing(desk: Desk) -> None:
    code, imported = _imports_of(desk, "--version")
    assert code == 0
    assert "holdfast._version" in imported
    assert imported & (COSTLY | {"typing"}) == set()


def test_submit_imports_nothing_costly(desk: Desk) -> None:
    desk.script("print('done')")
    assert desk.holdfast("submit", "-c", "local", "train.py").code == 0  # makes the store and names the project
    code, imported = _imports_of(desk, "submit", "-c", "local", "train.py")
    assert code == 0
    assert "holdfast.engine.submit.submit" in imported
    assert imported & (COSTLY | {"signal", "collections"}) == set()
    assert len(_ours(imported)) <= MOST_OF_CLIENT, sorted(_ours(imported))


def test_list_imports_few_modules(desk: Desk) -> None:
    desk.script("print('done')")
    assert desk.holdfast("submit", "-c", "local", "train.py").code == 0
    assert desk.holdfast("history", "list").code == 0
    code, imported = _imports_of(desk, "history", "list", "-o", "json")
    assert code == 0
    assert "holdfast.store.index.index" in imported
    assert len(_ours(imported)) <= MOST_OF_LIST, sorted(_ours(imported))


def test_run_needs_few_modules_of_the_runner_and_no_costly_ones(desk: Desk) -> None:
    """The runner keeps bytecode of each of its modules that was imported, by the supervisor too."""
    desk.script("print('done')")
    assert desk.holdfast("submit", "-c", "local", "train.py").code == 0
    (runner,) = (desk.home / "runner").iterdir()
    kept = {path.name.partition("-runner")[2] for path in (runner / "code").iterdir() if path.name != "state"}
    assert ".run.supervisor" in kept
    assert len(kept) <= MOST_OF_RUNNER, sorted(kept)
    asked = b"\0".join((bytes(desk.home), runner.name.encode(), b"nonce", b"0"))
    timed = [sys.executable, "-I", "-S", "-X", "importtime", "-c", bundle.UNPACK]
    words = [*timed, bundle.boot_words(), bundle.as_word(asked)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    imported = _timed(done.stderr.decode())
    assert "runner.server" in imported
    assert imported & (COSTLY | {"signal", "collections"}) == set()


def test_files_are_replaced_by_one_function() -> None:
    """``runner/store/files.py`` writes a temporary and renames it; what cannot use it is listed with its reason."""
    reasons = {
        "builder/bytecode.py": 1,  # the builder travels without the runner
        "builder/place.py": 1,
        "builder/sealing.py": 1,
        "engine/runs/outputs.py": 1,  # a download that goes on where an earlier one stopped
        "hosts/askpass.py": 1,  # a folder by tempfile.mkdtemp
        "runner/bootstrap.py": 3,  # travels alone
        "runner/container/init.py": 3,  # runs alone, under Python 2.7 too
        "runner/machine/installed_packages.py": 2,  # runs alone, under Python 2.7 too
        "script_api/remote_call.py": 1,  # travels alone, in the snapshot
        "script_api/replace.py": 2,  # the same function for a script's own process, without the runner
        "runner/store/objects.py": 3,  # many objects that are synced together
        "runner/history/shared_part.py": 1,  # below an open folder that other users could replace
    }
    found = Counter(
        _name(path)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if (isinstance(node, ast.Constant) and _text(node.value).endswith(files.TEMPORARY))
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "os.replace")
        # Elsewhere os.rename is for folders, or in a program that is listed.
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "os.rename" and "script_api" in path.parts)
    )
    assert found.pop("runner/store/files.py") == 3
    assert found == reasons


def test_paths_of_the_store_come_from_the_layout() -> None:
    """``runner/store/layout.py`` names each file once; the joins that are left are of other folders than the store."""
    others = {
        "engine/new_project.py": 1,  # templates that are part of the package
        "cli/commands/runs.py": 1,  # outputs/ of a project
        "compat/azureml/dataprep/_holdfast_sources.py": 1,  # data/ of a project
        "engine/machines/attach.py": 1,  # known_hosts in a temporary folder
        "engine/connection/bundle.py": 1,  # sources of the package
        "engine/submit/git_facts.py": 1,  # objects/ of a git repository
        "runner/bootstrap.py": 1,  # travels alone
        "runner/container/nested_runs.py": 1,  # runs in containers, under Python 2.7 too
        "store/mlflow_reader.py": 1,  # metrics/ of MLflow
    }
    places = [place for place in vars(layout).values() if isinstance(place, layout.Place)]
    names = {part for place in places for part in place.name.split("/")}
    names -= {"lock", "__main__.py", "container", "init.py", "probe.py", "machine"}
    found = Counter(
        _name(path)
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "os.path.join"
        and any(isinstance(part, ast.Constant) and _text(part.value) in names for part in node.args)
    )
    assert len(places) > 50
    assert found == others


def test_no_name_is_joined_to_a_folder_of_the_store() -> None:
    """A name that the layout does not have yet is found here. An empty name only adds a slash."""
    store = re.compile(r"layout\.\w+\(|(?:self\.)?_?(?:home\.\w+|login\.folder)$|os\.path\.dirname\(login\.folder\)$")
    joined = [
        f"{_name(path)}:{node.lineno} {ast.unparse(node)}"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "os.path.join"
        and store.match(ast.unparse(node.args[0]))
        and any(isinstance(part, ast.Constant) and part.value for part in node.args[1:])
    ]
    assert joined == []


def test_bytes_are_decoded_by_one_function_per_purpose() -> None:
    """``runner/decoding.py``; programs that travel alone have their own."""
    folders = ("builder/", "compat/", "script_api/")
    programs = ("bootstrap.py", "gpu/probe.py", "container/init.py", "container/nested_runs.py", "run/login_shell.py")
    alone = (*folders, "runner/machine/installed_packages.py", *(f"runner/{name}" for name in programs))
    found = [
        f"{_name(path)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr, *(part.value for part in node.args if isinstance(part, ast.Constant))) in DECODING
        and not _name(path).startswith(alone)
    ]
    assert len(found) == len(DECODING)
    assert {place.partition(":")[0] for place in found} == {"runner/decoding.py"}


DECODING = {
    *(("decode", "utf-8", handler) for handler in ("replace", "backslashreplace", "surrogateescape")),
    ("encode", "utf-8", "surrogateescape"),
}


def _imports_of(desk: Desk, *words: str) -> tuple[int, set[str]]:
    """Exit code of a command, and what it imported beyond what ``python -m`` itself does."""
    timed = [sys.executable, "-X", "importtime", "-m"]
    bare = subprocess.run([*timed, "this"], cwd=desk.project, env=desk.env, capture_output=True, text=True, check=True)
    command = [*timed, "holdfast", *words]
    done = subprocess.run(command, cwd=desk.project, env=desk.env, capture_output=True, text=True, check=False)
    return done.returncode, _timed(done.stderr) - _timed(bare.stderr)


def _ours(imported: set[str]) -> set[str]:
    return {name for name in imported if name.partition(".")[0] == "holdfast"}


def _timed(report: str) -> set[str]:
    return set(re.findall(r"^import time:[ \d]+\|[ \d]+\| +(\S+)$", report, re.MULTILINE))


def _name(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _assert_named(page: str, names: Iterable[str]) -> None:
    text = _page(page)
    missing = [name for name in names if f"`{name}`" not in text]
    assert missing == [], f"not in docs/{page}: {', '.join(missing)}"


def _imported(tree: ast.Module) -> Iterator[str]:
    """Top-level packages that a module imports when it runs; what only type checkers see is left out."""
    skipped = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id in ("TYPE_CHECKING", "MYPY")
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in skipped:
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node not in skipped and not node.level:
            yield (node.module or "").partition(".")[0]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value if isinstance(value, str) else ""


def _names(node: ast.expr) -> set[str]:
    inner = list(ast.walk(node))
    return {part.id for part in inner if isinstance(part, ast.Name)} | {
        part.attr for part in inner if isinstance(part, ast.Attribute)
    }


def _variables(tree: ast.Module) -> Iterator[str]:
    """Names of environment variables: what is asked of os.environ, and every literal that looks like one of ours."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.environ.get", "os.getenv"):
            yield str(ast.literal_eval(node.args[0]))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if re.fullmatch(r"(HOLDFAST|AZUREML|PYTHON)_?[A-Z_]*[A-Z]", text):
                yield text


def _below(error: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    for child in error.__subclasses__():
        yield child
        yield from _below(child)
