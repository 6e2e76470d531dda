"""Checks everything in a project that a run reads: configuration, declared packages, Spark files and scripts.

Nothing is asked of a target or of the network, and nothing of the project is run.
"""

from __future__ import annotations

import functools
import os
import re

from holdfast.amlconfig.check import check_project
from holdfast.amlconfig.compute import hdinsight_cluster, read_compute
from holdfast.amlconfig.dependencies import read_spark
from holdfast.amlconfig.runconfig import read_runconfig
from holdfast.amlconfig.types import Finding
from holdfast.engine.submit import declaration
from holdfast.environments import requirement, sources
from holdfast.environments.read import read
from holdfast.environments.revival import gpu_frameworks, retired, script_imports
from holdfast.environments.versions import release
from holdfast.errors import ConfigError
from holdfast.withdrawn import REPOSITORIES, SPARK_PACKAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from holdfast.amlconfig.types import RunConfig
    from holdfast.environments.edits import Edit
    from holdfast.environments.revival.script_imports import Script
    from holdfast.environments.sources import Declared
    from holdfast.environments.spec import Spec
    from holdfast.withdrawn import DeadModule

FOLDER = "aml_config"
CONDA_FILE = f"{FOLDER}/conda_dependencies.yml"
SPARK_FILE = f"{FOLDER}/spark_dependencies.yml"
FIX = "holdfast check --fix"


def check(root: str, known_targets: Collection[str] = ()) -> list[Finding]:
    """All findings, sorted by file and line; ``known_targets`` live outside the project."""
    findings = check_project(root, known_targets, needed_cuda(root))
    reported = {(finding.file, finding.line) for finding in findings}
    more = [*_declared(root), *_spark(root), *_clusters(root), *_scripts(root)]
    for finding in more:
        if (finding.file, finding.line) not in reported or not finding.line:
            findings.append(finding)
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.file, finding.line, finding.column))


def declarations(root: str) -> Iterator[tuple[Declared, Spec, list[Finding]]]:
    """Every file that a run configuration makes the declaration of an environment, once."""
    seen = set()
    for config in (*configurations(root), None):
        try:
            declared = sources.find(root, config, "")
            if declared is None or declared.file in seen:
                continue
            seen.add(declared.file)
            spec, findings = read(root, declared)
        except ConfigError:
            continue  # a file that is missing or unreadable is a finding of amlconfig
        if spec is not None:
            yield declared, spec, findings


def configurations(root: str) -> Iterator[RunConfig]:
    for name in names(root, ".runconfig"):
        path = os.path.join(root, FOLDER, name)
        try:
            status = os.stat(path)
        except OSError:
            continue
        config = _configuration(path, f"{FOLDER}/{name}", (status.st_ino, status.st_size, status.st_mtime_ns))
        if config is not None:
            yield config


@functools.lru_cache(64)
def _configuration(path: str, shown: str, _mark: tuple[int, int, int]) -> RunConfig | None:
    """Read once while it stays as it is: every check begins with the run configurations."""
    return read_runconfig(path, shown)[0]


def needed_cuda(root: str) -> tuple[int, int] | None:
    """The CUDA that the frameworks of the project need of a base image."""
    needed = (gpu_frameworks.needed_cuda(replaced(root, spec)) for _, spec, _ in declarations(root))
    return next((cuda for cuda in needed if cuda is not None), None)


def names(root: str, ending: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(os.path.join(root, FOLDER)) if name.endswith(ending))
    except OSError:
        return []


def retired_edits(root: str) -> Iterator[Edit]:
    """The replacements in all declaring files."""
    for declared, spec, _ in declarations(root):
        edits = declaration.edits(root, spec, "", None)
        yield from (edit for edit in edits if edit.entry.file == declared.file and edit.entry.line)


def spark_files(root: str) -> list[str]:
    named = [config.spark_dependencies_file or SPARK_FILE for config in configurations(root)]
    return [file for file in dict.fromkeys([*named, SPARK_FILE]) if os.path.isfile(os.path.join(root, file))]


def dead_imports(root: str) -> Iterator[tuple[Script, int, str, DeadModule]]:
    """Imports that fail with the packages that a run gets, with their lines and names."""
    pins = _pins(root)
    for file in script_imports.scripts(root):
        script = script_imports.read(root, file)
        if script is None:
            continue
        for use, name, module in script_imports.dead_modules(script):
            pinned = pins.get(module.package)
            if not (pinned and module.below and release(pinned) < release(module.below)):
                yield script, use.line, name, module


def _declared(root: str) -> Iterator[Finding]:
    for declared, _, findings in declarations(root):
        yield from (finding for finding in findings if finding.file == declared.file)
    for edit in retired_edits(root):
        finding = edit.finding
        yield finding._replace(hint=f"{finding.hint}, or run: {FIX}")


def _spark(root: str) -> Iterator[Finding]:
    for file in spark_files(root):
        spark, _ = read_spark(os.path.join(root, file), file)
        for address in spark.repositories if spark is not None else ():
            new, why = living_repository(address)
            if why:
                line = _line_of(root, file, address)
                hint = f"write {new}, or run: {FIX}" if new else f"delete this line, or run: {FIX}"
                yield Finding("warning", file, line, 1 if line else 0, f"{address} no longer exists: {why}", hint)
        for package in spark.packages if spark is not None else ():
            name = re.sub(r"_\d[\d.]*$", "", f"{package.group}:{package.artifact}")  # without the version of Scala
            if name in SPARK_PACKAGES and spark is not None:
                line = spark.lines.get(package.coordinate, 0)
                message = f"{name} {package.version} can no longer be fetched: it was for Spark 2"
                hint = "use com.microsoft.azure:synapseml_2.12, whose module is synapse.ml, or delete the package"
                yield Finding("warning", file, line, 1 if line else 0, message, hint)


def living_repository(address: str) -> tuple[str, str]:
    """What replaces a repository of Spark packages, and why; both empty for one that is not known to be gone."""
    for pattern, new, why in REPOSITORIES:
        if re.fullmatch(pattern, address.strip(), re.IGNORECASE):
            return new, why
    return "", ""


def _clusters(root: str) -> Iterator[Finding]:
    for name in names(root, ".compute"):
        shown = f"{FOLDER}/{name}"
        target, _ = read_compute(os.path.join(root, FOLDER, name), shown)
        address = hdinsight_cluster(target) if target is not None else ""
        if address:
            line = _line_of(root, shown, address)
            message = f"{address} is an HDInsight cluster of Azure; the clusters of the time were for Spark 2"
            hint = "attach a cluster that exists: holdfast computetarget attach cluster --name NAME --address ADDRESS"
            yield Finding("warning", shown, line, 1 if line else 0, message, hint)


def _scripts(root: str) -> Iterator[Finding]:
    for script, line, name, module in dead_imports(root):
        since = f" since {module.package} {module.below}" if module.below else ""
        message = f"{name} no longer exists{since}; use {module.new}"
        pin = f", or pin {module.package}<{module.below}" if module.below else ""
        yield Finding("warning", script.file, line, 1, message, f"change the import{pin}")
    for file in script_imports.scripts(root):
        read = script_imports.read(root, file)
        if read is not None and not read.is_parsed:
            message = f"Python 3 cannot parse this script: {read.problem or 'it is nested too deeply'}"
            hint = "scripts for Python 2 are converted by the program 2to3 of Python 3.12 and older"
            if not read.is_text:
                hint = "save the script as UTF-8 text"
            yield Finding("warning", file, read.problem_line, 1 if read.problem_line else 0, message, hint)


def _pins(root: str) -> dict[str, str]:
    """Exact versions by package, of the first declaration that has one."""
    pins: dict[str, str] = {}
    for _, spec, _ in declarations(root):
        used = replaced(root, spec)
        for entry in used.pip:
            wanted = requirement.parse(entry.text) if not entry.text.startswith("./") else None
            if wanted is not None and wanted.specifier.startswith("=="):
                pins.setdefault(wanted.name.replace("-gpu", ""), wanted.specifier.lstrip("="))
        for entry in used.conda:
            name, _, version = entry.text.partition("=")
            if version:
                pins.setdefault(name, version.lstrip("="))
    return pins


def replaced(root: str, spec: Spec) -> Spec:
    """``spec`` as a run would use it."""
    return retired.replaced(spec, declaration.edits(root, spec, "", None))[0]


def _line_of(root: str, file: str, text: str) -> int:
    from holdfast.environments.files import read_text

    try:
        lines = read_text(root, file).split("\n")
    except ConfigError:
        return 0
    return next((number for number, line in enumerate(lines, 1) if text in line), 0)
