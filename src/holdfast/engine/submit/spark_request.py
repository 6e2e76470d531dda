"""What a run says about Spark: master, settings and packages, from the target's file and ``spark_dependencies.yml``."""

from __future__ import annotations

import os
import re

from holdfast.amlconfig.types import Finding
from holdfast.errors import ConfigError
from holdfast.runner import untrusted
from holdfast.runner.decoding import readable
from holdfast.withdrawn import SPARK_PACKAGES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.amlconfig.types import ComputeTarget, RunConfig, SparkDependencies, SparkPackage
    from holdfast.model import Json
    from holdfast.target_lookup import Chosen

DEFAULT_FILE = "aml_config/spark_dependencies.yml"
LOCAL = "local[*]"
_YARN = "yarn"
_CLIENT = "client"
_DRIVER_MEMORY = "spark.driver.memory"
# In the file that the original made for every project; few scripts use it.
_OFTEN_UNUSED = ("com.microsoft.sqlserver:mssql-jdbc",)
_USES_SPARK = rb"\bpyspark\b|\bspark\s*\.\s*\w|\bsc\s*\.\s*\w"  # compiled on use: most submits do without
_IMPORTS = rb"^\s*(?:import|from)\s+(\.|\w+)"
_LONGEST_SHOWN = 60
_LARGEST_SOURCE = 4 << 20
_MOST_SOURCES = 2000
_SKIPPED = (".git", "node_modules", "__pycache__", "outputs")


def requested(root: str, chosen: Chosen, show: Callable[[Sequence[Finding]], None], script: str = "") -> Json:
    """The plan's ``spark``. Errors of the files are raised with file and line; warnings go to ``show``.

    The packages of a script that shows no use of Spark wait until it asks for a session.
    """
    file, declared, findings = _declared(root, chosen.config)
    conf = dict(declared.configuration) if declared is not None else {}
    lines = declared.lines if declared is not None else {}
    spark = _where(chosen.compute, conf, f"{file}:{lines.get('spark.master', 0)}")
    for name in (_DRIVER_MEMORY, "spark.executor.memory"):
        _check_memory(chosen.compute, conf, name, f"{file}:{lines.get(name, 0)}")
    rows = list(_packages(root, file, declared, findings)) if declared is not None and declared.packages else []
    if rows and declared is not None:
        key = "packages" if _script_uses_spark(root, script) else "packages_of_session"
        spark.update({key: rows, "repositories": list(declared.repositories), "file": file})
    if conf:
        spark["conf"] = conf
    spark.update(
        _left_to_the_target(root, chosen.compute, spark, f"{file}:{lines.get('spark.driver.memory', 0)}", script)
    )
    if findings:
        show(findings)
    return spark


def _left_to_the_target(root: str, compute: ComputeTarget, spark: Json, location: str, script: str) -> Json:
    """What the script's process is to check before its first line, because it is not known here."""
    if spark.get("deploy_mode", _CLIENT) != _CLIENT:
        return {}  # the driver is somewhere else
    if spark.get("remote"):
        return {"uses_spark": True} if _script_uses_spark(root, script) else {}
    conf = spark.get("conf")
    is_unknown = isinstance(conf, dict) and "spark.driver.memory" in conf and not compute.memory
    checks: Json = {"memory_line": location} if is_unknown and _is_elsewhere(compute) else {}
    if str(spark["master"]).startswith("spark://") and _script_uses_spark(root, script):
        checks["uses_spark"] = True
    return checks


def _is_elsewhere(compute: ComputeTarget) -> bool:
    return compute.kind.is_remote or compute.kind.in_container


def uses_spark(root: str) -> bool:
    """Whether a Python file or notebook of the project uses Spark, by its text."""
    return _mentions(root, _USES_SPARK)


def _script_uses_spark(root: str, script: str) -> bool:
    """Whether the script, or a file of the project that it imports, uses Spark; of a shell script the whole project."""
    if not script.endswith(".py"):
        return uses_spark(root)
    pattern, imports = re.compile(_USES_SPARK), re.compile(_IMPORTS, re.MULTILINE)
    waiting = [os.path.join(root, script)]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_SOURCES:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            text = untrusted.read_file(path, _LARGEST_SOURCE, root)
        except (OSError, ValueError):
            continue
        if pattern.search(text):
            return True
        folders = {root, os.path.dirname(os.path.join(root, script)), os.path.dirname(path)}
        for name in {readable(name) for name in imports.findall(text)}:
            waiting += [file for folder in folders for file in _files_of(folder, name)]
    return False


def _files_of(folder: str, name: str) -> list[str]:
    """The files behind an imported name, all of a package; a dot stands for the importing file's own package."""
    package = os.path.join(folder, name) if name != "." else folder
    files = [path for path, _ in _sources(package)] if os.path.isdir(package) else []
    return [*files, *([f"{package}.py"] if os.path.isfile(f"{package}.py") else [])]


def _declared(root: str, config: RunConfig) -> tuple[str, SparkDependencies | None, list[Finding]]:
    file = config.spark_dependencies_file or DEFAULT_FILE
    path = os.path.join(root, file)
    if not os.path.lexists(path):
        missing = file != DEFAULT_FILE
        hint = "correct or delete that line"
        what = f"{file}, which is named as SparkDependenciesFile, does not exist"
        return file, None, [Finding("warning", f"aml_config/{config.name}.runconfig", 0, 0, what, hint)] * missing
    from holdfast.amlconfig.dependencies import read_spark
    from holdfast.amlconfig.findings import raise_errors

    declared, findings = read_spark(path, file)
    raise_errors(findings)
    return file, declared, findings


def _where(compute: ComputeTarget, conf: dict[str, str], location: str) -> Json:
    """Master or server of the target; the project's file may only choose another number of threads for a machine."""
    own, address = conf.pop("spark.master", ""), ""
    if compute.kind.framework:  # most targets are no cluster, and a plain script is not to wait for the module
        from holdfast.engine.machines import spark_cluster

        address = spark_cluster.master_of(compute)
    is_other = own != address if address else bool(own) and not own.startswith("local")
    if own and is_other:
        what = f"spark.master is {_short(own)}, and runs on {compute.name} use {address or LOCAL}"
        raise ConfigError(what, where=location, hint="delete that line, or submit to another target")
    if own and not address:
        _check_local(own, location)
    if address.startswith("sc://"):
        return {"remote": address}
    if address == _YARN:
        mode, program = compute.yarn_deploy_mode or _CLIENT, compute.spark_submit_location
        return {"master": address, "deploy_mode": mode, **({"program": program} if program else {})}
    return {"master": address or own or LOCAL}


def _check_local(master: str, location: str) -> None:
    from holdfast.amlconfig import spark_address

    if not spark_address.is_local(master):
        hint = "write spark.master: local[4] for 4 threads, or delete that line: local[*] uses all processors"
        raise ConfigError(f"spark.master is {_short(master)!r}, which is malformed", where=location, hint=hint)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _check_memory(compute: ComputeTarget, conf: dict[str, str], name: str, location: str) -> None:
    """Where the limit is known here: this machine's memory, or that of a container. Elsewhere the target checks it."""
    text = conf.get(name, "")
    if not text:
        return
    from holdfast.script_api.spark import memory

    limit = compute.memory or (0 if compute.kind.is_remote else memory.limit())
    size = memory.size(text)
    if not size:
        hint = f"write for example {name}: 2g"
        raise ConfigError(f"{name} is {_short(text)!r}, which is not a size", where=location, hint=hint)
    if size < memory.LEAST:
        what = f"{name} is {_short(text)}, and Spark needs at least {memory.LEAST >> 20} MB"
        raise ConfigError(what, where=location, hint=f"write for example {name}: 1g")
    if name == _DRIVER_MEMORY and limit and size > limit:
        where = "its container" if compute.memory else "this machine"
        what = f"{name} is {_short(text)}, and {where} has {limit >> 20} MB"
        raise ConfigError(what, where=location, hint=f"write at most {name}: {int(limit * 0.8) >> 20}m")
    conf[name] = memory.of_java(text)


def _packages(root: str, file: str, declared: SparkDependencies, findings: list[Finding]) -> Iterator[Json]:
    for package in declared.packages:
        line = declared.lines.get(package.coordinate, 0)
        module = SPARK_PACKAGES.get(_without_scala(package))
        if module is not None:
            _refuse_import(root, module, package, f"{file}:{line}")
            message = (
                f"{package.coordinate} is left out: its repository no longer exists, and it was built for Scala 2.11"
            )
            findings.append(
                Finding("warning", file, line, 1 if line else 0, message, "delete this package; no script imports it")
            )
            continue
        is_optional = f"{package.group}:{package.artifact}" in _OFTEN_UNUSED
        yield {"coordinate": package.coordinate, "line": line, **({"optional": True} if is_optional else {})}


def _without_scala(package: SparkPackage) -> str:
    return f"{package.group}:{re.sub(r'_[0-9.]+$', '', package.artifact)}"


def _refuse_import(root: str, module: str, package: SparkPackage, location: str) -> None:
    name = module.encode()
    pattern = re.compile(rb'^\s*"?\s*(?:import|from)\s+%s\b' % name, re.MULTILINE)  # lines of notebooks are quoted
    for path, text in _sources(root):
        match = pattern.search(text) if name in text else None
        if match is None or (b'"' in match[0] and not path.endswith(".ipynb")):
            continue
        line = text.count(b"\n", 0, match.end()) + 1
        what = f"this script imports {module}, whose package {package.coordinate} ({location}) is no longer available"
        hint = "its successor is com.microsoft.azure:synapseml_2.13, imported as synapse.ml"
        raise ConfigError(what, where=f"{os.path.relpath(path, root)}:{line}", hint=hint)


def _mentions(root: str, expression: bytes) -> bool:
    pattern = re.compile(expression)
    return any(pattern.search(text) for _, text in _sources(root))


def _sources(root: str) -> Iterator[tuple[str, bytes]]:
    """Path and text of the Python files and notebooks."""
    number = 0
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED and not name.startswith(".")]
        for name in files:
            if not name.endswith((".py", ".ipynb")) or number >= _MOST_SOURCES:
                continue
            number += 1
            try:
                path = os.path.join(folder, name)
                yield path, untrusted.read_file(path, _LARGEST_SOURCE, root)
            except (OSError, ValueError):
                continue
