"""Checks all ``aml_config`` files of a project, and whether the files that they name exist."""

from __future__ import annotations

import os

from holdfast.amlconfig import compute, runconfig
from holdfast.amlconfig.compute import read_compute
from holdfast.amlconfig.dependencies import read_conda, read_spark
from holdfast.amlconfig.nodes import Mapping
from holdfast.amlconfig.runconfig import read_runconfig
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.types import BUILT_IN, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.amlconfig.types import ComputeTarget, RunConfig

FOLDER = "aml_config"
CONDA_FILE = f"{FOLDER}/conda_dependencies.yml"
SPARK_FILE = f"{FOLDER}/spark_dependencies.yml"


def check_project(
    root: str | os.PathLike[str], known_targets: Collection[str] = (), cuda: tuple[int, int] | None = None
) -> list[Finding]:
    """Findings on every file of ``aml_config`` and on what they name, by file and line.

    Files in findings are relative to ``root``. ``known_targets`` are those that live outside the project,
    and ``cuda`` is what the project's framework needs of a base image.
    """
    root = os.fspath(root)
    names = _file_names(root)
    targets = {*BUILT_IN, *known_targets, *(name[:-8] for name in names if name.endswith(".compute"))}
    findings: list[Finding] = []
    conda, spark = {CONDA_FILE}, {SPARK_FILE}
    for name in names:
        path, shown = os.path.join(root, FOLDER, name), f"{FOLDER}/{name}"
        if name.endswith(".compute"):
            target, problems = read_compute(path, shown)
            findings += problems
            if target is not None:
                findings += _check_image(path, target, shown, cuda) + _check_dockerfile(root, path, target, shown)
        elif name.endswith(".runconfig"):
            config, problems = read_runconfig(path, shown)
            findings += problems
            if config is not None:
                findings += check_target(path, config, targets, shown) + _check_conda_file(root, path, config, shown)
                conda.add(config.conda_dependencies_file or CONDA_FILE)
                spark.add(config.spark_dependencies_file or SPARK_FILE)
    for name in filter(lambda name: os.path.lexists(os.path.join(root, name)), conda):
        findings += read_conda(os.path.join(root, name), name)[1]
    for name in filter(lambda name: os.path.lexists(os.path.join(root, name)), spark):
        findings += read_spark(os.path.join(root, name), name)[1]
    return sorted(findings, key=lambda finding: (finding.file, finding.line, finding.column))


def check_target(path: str, config: RunConfig, targets: Collection[str], shown: str = "") -> list[Finding]:
    """An error if the target that ``config``, read from ``path``, names is not one of ``targets``."""
    name = config.target or ""
    if name in targets:
        return []
    from difflib import get_close_matches

    by_folded = {target.casefold(): target for target in sorted(targets)}
    close = get_close_matches(name.casefold(), by_folded, n=1)
    if close:
        hint = f"did you mean {by_folded[close[0]]}?"
    else:
        hint = f"attach it (holdfast computetarget attach), or write one of: {', '.join(sorted(targets))}"
    message = f"there is no target {name!r}: {FOLDER}/{name}.compute does not exist"
    return [_at_key(path, shown, "Target", Finding("error", shown or path, 0, 0, message, hint))]


def _file_names(root: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(root, FOLDER)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _check_image(path: str, target: ComputeTarget, shown: str, cuda: tuple[int, int] | None) -> list[Finding]:
    from holdfast.image_names import replaced

    image, message = replaced(target.base_docker_image or "", cuda)
    if not message:
        return []
    finding = Finding("warning", shown, 0, 0, message, f"write baseDockerImage: {image}, or an image of your own")
    return [_at_key(path, shown, "baseDockerImage", finding)]


def _check_dockerfile(root: str, path: str, target: ComputeTarget, shown: str) -> list[Finding]:
    name = target.dockerfile
    if name is None or os.path.isfile(os.path.join(root, name)):
        return []
    finding = Finding("error", shown, 0, 0, f"{name} does not exist", "name a file of the project, from its top folder")
    return [_at_key(path, shown, "dockerfile", finding)]


def _check_conda_file(root: str, path: str, config: RunConfig, shown: str) -> list[Finding]:
    name = config.conda_dependencies_file
    if name is None or name == CONDA_FILE or os.path.lexists(os.path.join(root, name)):
        return []
    finding = Finding("warning", shown, 0, 0, f"{name} does not exist", "correct the path or delete this line")
    return [_at_key(path, shown, "CondaDependenciesFile", finding)]


def key_place(path: str, *names: str) -> str:
    """``file:line:column`` of a key, or of one in the map under it; the file alone where it cannot be seen."""
    source = Source(path, path, runconfig.KEYS, runconfig.MAPS)
    node, location = source.root, path
    for name in names:
        pairs = [pair for pair in (node.entries if node else ()) if pair[0].text.lower() == name.lower()]
        if not pairs:
            return location
        key, value = pairs[-1]
        line, column = source.at(key.line, key.column)
        location = f"{path}:{line + 1}:{column + 1}"
        node = value if isinstance(value, Mapping) else None
    return location


def _at_key(path: str, shown: str, name: str, finding: Finding) -> Finding:
    """The finding, placed at the value of a top-level key where that can be seen."""
    source = Source(path, shown or path, (*compute.KEYS, *runconfig.KEYS))
    for key, value in reversed(source.root.entries if source.root else ()):
        if key.text.lower() == name.lower():
            line, column = source.at(value.line, value.column)
            return finding._replace(line=line + 1, column=column + 1)
    return finding
