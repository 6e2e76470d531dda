"""Which Python runs a script in a folder without aml_config, and how a user decides otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from builder.wheels import write_wheel
from conftest import Desk
from lab.server import serve
from managed import index, lend_tools, shown

WHERE = "import sys; print('prefix', sys.prefix)\n"
IMPORTS = "import sys, tinylocal; print('prefix', sys.prefix, 'has', tinylocal.FROM)\n"
LINES = "--no-index\n--find-links wheels\ntinylocal\n"


@pytest.fixture
def active(tmp_path: Path) -> Path:
    place = tmp_path / "active"
    venv.create(place)
    return place


@pytest.fixture
def declared(desk: Desk) -> Desk:
    """A folder whose requirements.txt names a package that only the folder itself has."""
    lend_tools(desk)
    write_wheel(desk.project / "wheels", "tinylocal", "1.0", {"tinylocal.py": "FROM = 'a wheel of the folder'\n"})
    (desk.project / "requirements.txt").write_text(LINES)
    desk.script(IMPORTS)
    return desk


def write_metadata(environment: Path, name: str, version: str) -> None:
    """As an installed package has it."""
    (site,) = environment.glob("lib/python3*/site-packages")
    (site / f"{name}-{version}.dist-info").mkdir()
    (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")


def environment_line(err: str) -> str:
    (line,) = [line for line in err.splitlines() if line.startswith("environment: ")]
    return line.removeprefix("environment: ")


def control_log(desk: Desk) -> str:
    return desk.holdfast("history", "info", "-a", "control_log").text


def test_submit_without_declaration_uses_first_python_on_path(desk: Desk) -> None:
    desk.script(WHERE)
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert f"prefix {sys.prefix}\n" in result.text
    python = Path(sys.executable).with_name("python")
    assert environment_line(result.err) == f"{python} (no environment is active or declared)"
    assert "(no environment is active or declared)" in control_log(desk)
    gone = desk.submit("train.py", env={"VIRTUAL_ENV": "/nowhere/removed"})
    why = "no environment is active or declared; VIRTUAL_ENV has no Python: '/nowhere/removed'"
    assert environment_line(gone.err) == f"{python} ({why})"


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_active_environment_is_used_as_it_is(desk: Desk, active: Path, variable: str) -> None:
    desk.script(WHERE)
    (desk.project / "requirements.txt").write_text("no-such-package-anywhere\n")
    result = desk.submit("train.py", env={variable: str(active)})
    assert result.code == 0, shown(result)
    assert f"prefix {active}\n" in result.text
    assert environment_line(result.err) == f"{active} (active in this shell, {variable})"
    assert f"active in this shell, {variable}" in control_log(desk)
    assert not (desk.home / "envs").exists()


def test_active_environment_is_active_in_the_script_and_in_runs_that_it_submits(desk: Desk, active: Path) -> None:
    (desk.project / "requirements.txt").write_text("no-such-package-anywhere\n")
    desk.script(WHERE, "inner.py")
    desk.script("import os; print(os.environ['VIRTUAL_ENV'], flush=True); os.system('holdfast submit inner.py')\n")
    result = desk.submit("train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"{active}\n" in result.text, shown(result)
    assert f"prefix {active}\n" in result.text, shown(result)


def test_base_environment_of_conda_does_not_hide_declaration(declared: Desk, active: Path) -> None:
    env = {"CONDA_PREFIX": str(active), "CONDA_DEFAULT_ENV": "base"}
    result = declared.submit("train.py", env=env)
    assert "has a wheel of the folder" in result.text, shown(result)


def test_declared_environment_is_built_and_used(declared: Desk) -> None:
    result = declared.submit("train.py")
    assert result.code == 0, shown(result)
    assert f"prefix {declared.home}/envs/" in result.text
    assert environment_line(result.err) == "the packages of requirements.txt (no environment is active)"
    (built,) = declared.holdfast("env", "list", "-o", "json").json
    assert built["packages"] == 1
    again = declared.holdfast("env", "show").json
    assert (again["declared"], again["built"]) == ("requirements.txt", True)


def test_options_decide_otherwise(declared: Desk, active: Path) -> None:
    declared.script(WHERE)
    as_it_is = declared.submit("--env", "none", "train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"prefix {sys.prefix}\n" in as_it_is.text, shown(as_it_is)
    named = declared.submit("--python", "../active/bin/python", "train.py")
    assert f"prefix {active}\n" in named.text, shown(named)
    folder = declared.submit("--python", str(active), "train.py")
    assert f"prefix {active}\n" in folder.text, shown(folder)
    built = declared.submit("--env", "project", "train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"prefix {declared.home}/envs/" in built.text, shown(built)


def test_env_option_still_sets_variables(desk: Desk) -> None:
    desk.script("import os; print(os.environ['A'], os.environ['B'], os.environ['none'])\n")
    words = ("-e", "A=1", "--env", "B=2", "-e", "none", "--env", "none")
    result = desk.submit(*words, "train.py", env={"none": "3"})
    assert "1 2 3\n" in result.text, shown(result)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--env", "active"), "--env active: no environment is active in this shell"),
        (("--env", "active", "--python", "x"), "use either --env active or --python, not both"),
        (("--python", "/nowhere/python"), "there is no interpreter /nowhere/python"),
        (("--env", "project"), "no environment is declared here"),
        (("--env", "other"), "--env takes project, active or none"),
        (("--python", "3.1"), "a program on the PATH such as python3.12"),
    ],
)
def test_impossible_choice_starts_no_run(desk: Desk, words: tuple[str, ...], message: str) -> None:
    desk.script(WHERE)
    result = desk.submit(*words, "train.py")
    assert result.code in (2, 65), shown(result)
    assert message in result.err
    assert desk.holdfast("history", "list", "-o", "json").json == []


def test_header_of_script_comes_before_files(declared: Desk) -> None:
    write_wheel(declared.project / "wheels", "tinyheader", "1.0", {"tinyheader.py": ""})
    header = '# /// script\n# dependencies = ["tinyheader @ file:wheels/tinyheader-1.0-py3-none-any.whl"]\n# ///\n'
    declared.script(header + "import tinyheader, importlib.util as u; print('also', u.find_spec('tinylocal'))\n")
    result = declared.submit("train.py")
    assert "also None" in result.text, shown(result)
    assert environment_line(result.err).startswith("the packages of train.py")


@pytest.mark.parametrize("beside", ["", "requirements.txt"])
def test_python_that_a_header_without_dependencies_rules_out_is_refused(desk: Desk, beside: str) -> None:
    if beside:
        (desk.project / beside).write_text("no-such-package-anywhere\n")
    desk.script('# /// script\n# requires-python = ">=3.99"\n# dependencies = []\n# ///\n' + WHERE)
    result = desk.submit("train.py")
    assert result.code == 65, shown(result)
    assert "train.py requires Python >=3.99; the interpreter of this target is Python 3." in result.err
    assert desk.holdfast("history", "list", "-o", "json").json == []
    assert desk.submit("--env", "none", "train.py").code == 0


def test_python_that_a_header_without_dependencies_allows_is_used_as_it_is(desk: Desk) -> None:
    desk.script('# /// script\n# requires-python = ">=3.6"\n# ///\n' + WHERE)
    result = desk.submit("train.py")
    assert f"prefix {sys.prefix}\n" in result.text, shown(result)
    assert "no environment is active or declared" in environment_line(result.err)
    (desk.project / "Pipfile").touch()
    result = desk.submit("train.py")
    assert "(no environment is active or declared; Pipfile is not read)" in environment_line(result.err)


def test_uv_lock_is_installed(declared: Desk) -> None:
    declared.script("import tinypip; print('version', tinypip.WHOLE)\n")
    text = '[project]\nname = "x"\nversion = "1"\nrequires-python = ">=3.8"\ndependencies = ["tinypip<1.1"]\n'
    with serve(index().path) as server:
        found = f'[[tool.uv.index]]\nurl = "{index().simple(server.url)}"\ndefault = true\n'
        (declared.project / "pyproject.toml").write_text(text + found)
        lock = [str(Path(sys.executable).with_name("uv")), "lock", "--quiet", "--python", sys.executable]
        subprocess.run(lock, cwd=declared.project, env=declared.env, check=True)
        result = declared.submit("train.py")
    assert environment_line(result.err).startswith("the packages of uv.lock"), shown(result)
    assert "version 1.0" in result.text, shown(result)


def test_broken_declaration_names_the_way_without_it(desk: Desk) -> None:
    desk.script(WHERE)
    (desk.project / "requirements.txt").write_text("-e ../elsewhere\n")
    result = desk.submit("train.py")
    assert result.code == 65, shown(result)
    assert "requirements.txt:1" in result.err
    assert "to run without the declared packages: --env none" in result.err
    assert desk.submit("--env", "none", "train.py").code == 0


def test_broken_pyproject_is_refused_with_its_line_though_requirements_are_beside_it(declared: Desk) -> None:
    declared.script(WHERE)
    (declared.project / "pyproject.toml").write_text("[project\n")
    result = declared.submit("train.py")
    assert result.code == 65, shown(result)
    assert "ERROR: this file is not valid TOML" in result.err
    assert "at: pyproject.toml:1:9" in result.err
    assert declared.submit("--env", "none", "train.py").code == 0


@pytest.mark.parametrize("name", ["docker", "podman", "box"])
def test_file_that_only_describes_a_container_leaves_declared_environment_on(declared: Desk, name: str) -> None:
    (declared.project / "aml_config").mkdir()
    file = declared.project / "aml_config" / f"{name}.compute"
    file.write_text(f"type: docker  # here\nengine: {name}\nbaseDockerImage: python:3.12-slim\n")
    result = declared.submit("train.py")
    assert "has a wheel of the folder\n" in result.text, shown(result)
    assert environment_line(result.err) == "the packages of requirements.txt (no environment is active)"
    if name == "docker":
        shown_there = declared.holdfast("submit", "--dry-run", "-c", name, "train.py").err
        assert environment_line(shown_there) == "the packages of requirements.txt (the default on this target)"


@pytest.mark.parametrize("more", ["userManagedEnvironment: true\n", "pythonLocation: python3\n", "a runconfig"])
def test_container_of_a_workbench_project_keeps_its_meaning(declared: Desk, more: str) -> None:
    (declared.project / "aml_config").mkdir()
    folder = declared.project / "aml_config"
    (folder / "docker.compute").write_text("type: docker\nbaseDockerImage: python:3.12-slim\n" + more * (": " in more))
    if ": " not in more:
        (folder / "docker.runconfig").write_text("Target: docker\nFramework: Python\n")
    result = declared.submit("train.py")
    assert "ModuleNotFoundError" in result.text + result.err, shown(result)


def test_project_with_aml_config_keeps_its_meaning(desk: Desk, active: Path) -> None:
    desk.script(WHERE)
    (desk.project / "requirements.txt").write_text("no-such-package-anywhere\n")
    (desk.project / "aml_config").mkdir()
    for text in (None, "type: local\n", "type: local\nuserManagedEnvironment: true\n"):
        if text is not None:
            (desk.project / "aml_config" / "local.compute").write_text(text)
        result = desk.submit("train.py", env={"VIRTUAL_ENV": str(active)})
        assert f"prefix {sys.prefix}\n" in result.text, shown(result)
        python, why = environment_line(result.err).split(" ", 1)
        assert os.path.dirname(python) == os.path.join(sys.prefix, "bin")
        setting = (
            "userManagedEnvironment: true in local.compute"
            if text and "true" in text
            else "the default with aml_config"
        )
        assert why == f"({setting}; requirements.txt is not used, --env project uses it)"


@pytest.mark.parametrize("declares", [True, False])
def test_line_of_a_managed_target_names_its_setting(desk: Desk, declares: bool) -> None:
    desk.script("print(1)")
    folder = desk.project / "aml_config"
    folder.mkdir()
    (folder / "local.compute").write_text("type: local\nuserManagedEnvironment: false\n")
    if declares:
        (folder / "conda_dependencies.yml").write_text("dependencies:\n- pip:\n  - tinylocal==1\n")
    line = environment_line(desk.holdfast("submit", "--dry-run", "train.py").err)
    setting = "userManagedEnvironment: false in local.compute"
    if declares:
        assert line == f"the packages of aml_config/conda_dependencies.yml ({setting})"
    else:
        assert line.endswith(f"({setting}; nothing is declared here)")


def test_file_that_is_not_there_does_not_stop_a_target_that_needs_none(desk: Desk) -> None:
    desk.script("print(1)")
    folder = desk.project / "aml_config"
    folder.mkdir()
    (folder / "local.runconfig").write_text(
        "Target: local\nFramework: Python\nCondaDependenciesFile: aml_config/gone.yml\n"
    )
    (folder / "local.compute").write_text("type: local\nuserManagedEnvironment: true\n")
    result = desk.submit("train.py")
    assert result.code == 0, shown(result)
    assert environment_line(result.err).endswith("(userManagedEnvironment: true in local.compute)")


def test_attached_target_does_not_change_the_environment_of_local(declared: Desk) -> None:
    (declared.project / "aml_config").mkdir()
    (declared.project / "aml_config" / "far.runconfig").write_text("Target: far\nFramework: Python\n")
    file = declared.project / "aml_config" / "far.compute"
    file.write_text("address: far.example\nenvironment: project\ntype: remote\n")
    assert "has a wheel of the folder" in declared.submit("train.py").text
    file.write_text("address: far.example\ntype: remote\n")
    assert "ModuleNotFoundError" in declared.submit("train.py").text


def test_compute_file_names_environment(declared: Desk, active: Path) -> None:
    (declared.project / "aml_config").mkdir()
    file = declared.project / "aml_config" / "local.compute"
    file.write_text("type: local\nenvironment: project\n")
    assert "has a wheel of the folder" in declared.submit("train.py").text
    declared.script(WHERE)
    file.write_text("type: local\nenvironment: active\n")
    result = declared.submit("train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"prefix {active}\n" in result.text, shown(result)
    file.write_text(f"type: local\nenvironment: {active}\n")
    declared.trust("local")
    result = declared.submit("train.py")
    assert f"prefix {active}\n" in result.text, shown(result)
    assert environment_line(result.err) == f"{active}/bin/python (local.compute)"


def test_contradiction_in_compute_file_is_refused_with_its_line(desk: Desk) -> None:
    desk.script(WHERE)
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text(
        "type: local\nuserManagedEnvironment: true\nenvironment: project\n"
    )
    result = desk.submit("train.py")
    assert result.code == 65, shown(result)
    assert "local.compute:3" in result.err
    assert "environment: project contradicts userManagedEnvironment: true in line 2" in result.err


def test_environment_path_inside_the_project_needs_confirmation(desk: Desk) -> None:
    desk.script(WHERE)
    venv.create(desk.project / ".venv")
    (desk.project / "aml_config").mkdir()
    (desk.project / "aml_config" / "local.compute").write_text("type: local\nenvironment: .venv\n")
    refused = desk.submit("train.py")
    assert refused.code == 65, shown(refused)
    assert "holdfast trust local" in refused.err
    desk.trust("local")
    assert f"prefix {desk.project}/.venv\n" in desk.submit("train.py").text


def test_reproduce_uses_the_same_interpreter(desk: Desk, active: Path) -> None:
    desk.script("import sys; sys.stdout.write('prefix %s\\n' % sys.prefix)\nimport holdfast\nholdfast.log('x', 1)\n")
    first = desk.submit("train.py", env={"VIRTUAL_ENV": str(active)})
    assert first.code == 0, shown(first)
    again = desk.holdfast("reproduce", "-r", "1")
    assert again.code == 0, shown(again)
    assert f"prefix {active}\n" in again.err


def test_missing_module_without_declaration_is_added_by_one_command(desk: Desk) -> None:
    lend_tools(desk)
    desk.env.update(PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(desk.user_home / "wheels"))
    write_wheel(
        desk.user_home / "wheels", "tinymissing", "1.0", {"tinymissing/__init__.py": "", "tinymissing/a.py": ""}
    )
    desk.script("import tinymissing.a; print('found')\n")
    failed = desk.submit("train.py")
    assert failed.code == 1, shown(failed)
    *_, what, command = failed.err.splitlines()
    assert what == f"the module tinymissing is not installed in {Path(sys.executable).with_name('python')}"
    assert command == "  add it with: holdfast env add tinymissing, which declares it for the next submit"
    assert desk.holdfast("env", "add", "tinymissing").code == 0
    assert "found" in desk.submit("train.py").text


def test_missing_module_of_declared_and_active_environment(declared: Desk, active: Path) -> None:
    declared.script("import sklearn\n")
    failed = declared.submit("train.py")
    assert "the module sklearn is not installed in the environment of requirements.txt" in failed.err
    assert "add it with: holdfast env add scikit-learn" in failed.err
    failed = declared.submit("train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"add it with: uv pip install --python {active}/bin/python scikit-learn" in failed.err, "it has no pip"
    write_metadata(active, "pip", "23.0")
    failed = declared.submit("train.py", env={"VIRTUAL_ENV": str(active)})
    assert f"add it with: {active}/bin/python -m pip install scikit-learn" in failed.err


NOT_ADDED = {
    "helpr": ("no module helpr was found", "did you mean helper? helper.py is in the project"),
    "pkg.trian": ("pkg is in the project, but has no module pkg.trian", "did you mean pkg.train?"),
    "pkg.other": ("pkg is in the project, but has no module pkg.other",),
    "sklearn.gone": ("scikit-learn 1.2 in {python} has no module sklearn.gone", "check the spelling"),
    "space.gone": ("the module space.gone is not installed in {python}", "several packages share the name space"),
    "cPickle": ("cPickle is a module of Python 2; in Python 3: pickle",),
    "xml.gone": ("xml.gone is a part of Python that {python} lacks",),
}


def test_missing_module_that_no_package_would_add(desk: Desk, active: Path) -> None:
    for file in ("helper.py", "pkg/train.py", "pkg/__init__.py"):
        desk.script("", file)
    write_metadata(active, "scikit_learn", "1.2")
    (site,) = active.glob("lib/python3*/site-packages")
    for module in ("sklearn/__init__.py", "space/one.py"):
        (site / module).parent.mkdir()
        (site / module).touch()
    for module, messages in NOT_ADDED.items():
        desk.script(f"import {module}\n")
        failed = desk.submit("train.py", env={"VIRTUAL_ENV": str(active)})
        assert failed.code == 1, shown(failed)
        for message in messages:
            assert message.format(python=active / "bin" / "python") in failed.err, shown(failed)
        assert "add it with" not in failed.err


def test_missing_module_of_a_python_outside_of_environments_is_declared_instead(desk: Desk) -> None:
    desk.script("import tinymissing\n")
    python = os.path.realpath(sys.executable)
    failed = desk.submit("--python", python, "train.py")
    assert f"the module tinymissing is not installed in {python}" in failed.err
    assert "add it with: holdfast env add tinymissing, and submit without --python" in failed.err


def test_missing_module_of_an_environment_of_pyproject_can_be_declared_without_uv(declared: Desk) -> None:
    (declared.project / "requirements.txt").unlink()
    wheels = str(declared.project / "wheels")
    declared.env.update(PIP_CONFIG_FILE=os.devnull, PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
    lines = "[project]\nname = 'digits'\nversion = '1'\ndependencies = ['tinylocal']\n"
    (declared.project / "pyproject.toml").write_text(lines)
    declared.script("import tinymissing\n")
    failed = declared.submit("train.py")
    written = "uv add tinymissing, or write it under dependencies in pyproject.toml"
    assert f"add it with: {written}" in failed.err, shown(failed)


def test_module_of_the_project_that_is_not_found_is_told_apart(desk: Desk) -> None:
    desk.script("VALUE = 1\n", "helpers.py")
    desk.script("import helpers; print('found', helpers.VALUE)\n", "jobs/train.py")
    failed = desk.submit("jobs/train.py")
    assert "helpers.py is in the project, but not where jobs/train.py looks for modules" in failed.err
    assert "try: holdfast submit -e PYTHONPATH=. jobs/train.py" in failed.err
    assert "found 1" in desk.submit("-e", "PYTHONPATH=.", "jobs/train.py").text
    (desk.project / ".amlignore").write_text("helpers.py\n")
    failed = desk.submit("-e", "PYTHONPATH=.", "jobs/train.py")
    assert "helpers.py is in the project but was excluded from the run by" in failed.err
    assert "include it with this line in .amlignore: !helpers.py" in failed.err
