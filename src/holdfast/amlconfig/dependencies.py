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
    packages = (_spark_package(form, node) for node in form.entries("packages") or ())
    spark = SparkDependencies(
        configuration=form.text_map("configuration") or {},
        repositories=form.texts("repositories") or (),
        packages=tuple(package for package in packages if package),
        extra=form.extra(),
    )
    return source.result(spark)


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
