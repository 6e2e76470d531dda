"""``conda_dependencies.yml`` and ``spark_dependencies.yml``: what a script needs around it."""

from __future__ import annotations

import os

from holdfast.amlconfig.form import Form
from holdfast.amlconfig.nodes import Mapping, Scalar
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.types import CondaDependencies, SparkDependencies, SparkPackage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.nodes import Node
    from holdfast.amlconfig.types import Finding, Item

CONDA_KEYS = ("name", "channels", "dependencies", "prefix", "variables")
SPARK_KEYS = ("configuration", "repositories", "packages", "version")
# Part of Python itself, and seen as packages in real files.
_STANDARD = ("io", "os", "sys", "re", "json", "pickle", "math", "time", "datetime", "random", "csv", "glob", "shutil")


def read_conda(path: str | os.PathLike[str], shown: str = "") -> tuple[CondaDependencies | None, list[Finding]]:
    """The conda file, or ``None`` exactly when a finding is an error. An empty file asks for nothing."""
    source = Source(os.fspath(path), shown or os.fspath(path), CONDA_KEYS)
    if source.root is None:
        return None, source.findings
    form = Form(source, source.root, CONDA_KEYS)
    packages, pip = _conda_packages(form)
    conda = CondaDependencies(
        name=form.text("name"),
        channels=form.items("channels") or (),
        dependencies=packages,
        pip=pip,
        extra=form.extra(),
    )
    return source.result(conda)


def read_spark(path: str | os.PathLike[str], shown: str = "") -> tuple[SparkDependencies | None, list[Finding]]:
    """The Spark file, or ``None`` exactly when a finding is an error."""
    source = Source(os.fspath(path), shown or os.fspath(path), SPARK_KEYS, ("configuration",))
    if source.root is None:
        return None, source.findings
    form = Form(source, source.root, SPARK_KEYS)
    nodes = form.entries("packages") or ()
    packages = [(package, node) for node in nodes if (package := _spark_package(form, node))]
    lines = {package.coordinate: node.line + 1 for package, node in packages}
    configuration, lines_of_keys = _spark_configuration(form)
    spark = SparkDependencies(
        configuration=configuration,
        repositories=form.texts("repositories") or (),
        packages=tuple(package for package, _ in packages),
        extra=form.extra(),
        lines={**lines, **lines_of_keys},
    )
    return source.result(spark)


def _spark_configuration(form: Form) -> tuple[dict[str, str], dict[str, int]]:
    """The settings for Spark and their lines; keys that are not Spark's are named and left out."""
    node = form.mapping("configuration")
    if node is None:
        return {}, {}
    texts = form.text_map("configuration") or {}
    for key, value in node.entries:
        if not key.text.startswith("spark."):
            message = f"{key.text} is not a setting of Spark and is left out"
            form.source.warn(key.line, key.column, message, "the names of Spark's settings begin with spark.")
            texts.pop(key.text, None)
        elif isinstance(value, Scalar) and value.is_null:
            message = f"{key.text} has no value and is left out"
            form.source.warn(key.line, key.column, message, f"write {key.text}: and its value, or delete this line")
            texts.pop(key.text, None)
    return texts, {key.text: key.line + 1 for key, _ in node.entries}


def _conda_packages(form: Form) -> tuple[tuple[Item, ...], tuple[Item, ...] | None]:
    packages: list[Item] = []
    pip: tuple[Item, ...] | None = None
    for node in form.entries("dependencies") or ():
        if isinstance(node, Scalar):
            item = form.item(node)
            packages.append(item)
            _check_package(form, node)
        elif isinstance(node, Mapping) and [key.text for key, _ in node.entries] == ["pip"]:
            pip = (pip or ()) + (Form(form.source, node, ("pip",)).items("pip") or ())
        else:
            form.source.error(node.line, node.column, "expected a package or a pip: list", "write - name=1.2")
    return tuple(packages), pip


def _check_package(form: Form, node: Scalar) -> None:
    if not node.text.strip():
        form.source.error(node.line, node.column, "empty list item", "delete this line")
    elif node.text in _STANDARD:
        form.source.warn(node.line, node.column, f"{node.text} is part of Python, not a package", "delete this line")


def _spark_package(form: Form, node: Node) -> SparkPackage | None:
    if not isinstance(node, Mapping):
        hint = "write - group: org.example, and below it artifact: and version:"
        form.source.error(node.line, node.column, "a Spark package has a group, an artifact and a version", hint)
        return None
    package = Form(form.source, node, SparkPackage._fields)
    package.warn_unknown()
    for name in SparkPackage._fields:
        if package.absent(name):
            form.source.error(node.line, node.column, f"this package has no {name}", f"add {name}: below it")
    return SparkPackage(*(package.text(name) or "" for name in SparkPackage._fields))
