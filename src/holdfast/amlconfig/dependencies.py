"""``conda_dependencies.yml`` and ``spark_dependencies.yml``: what a script needs around it."""

from __future__ import annotations

import os
import re

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

# Patterns of Spark's and Maven's names: a "," or ":" would make another package of it, a "=" another setting.
_SETTING = r"spark\.[^\s=\x00-\x1f\x7f]+"
_NAME = r"\w[\w.+-]*"
_VERSION = rf"{_NAME}|[\[(\]][\w.+-]*,[\w.+-]*[\])\[]"  # or a range
_REPOSITORY = r"[A-Za-z][A-Za-z0-9+.-]*:/[^\s\x00-\x1f\x7f]*"
_EXAMPLES = {"group": "org.example", "artifact": "thing_2.13", "version": '"1.0"'}


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
        repositories=_spark_repositories(form),
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
        if not re.fullmatch(_SETTING, key.text):
            message = f"{_shown(key.text)} is not a setting of Spark and is left out"
            begins = "the names of Spark's settings begin with spark."
            hint = f"{begins} and have no spaces and no =" if key.text.startswith("spark.") else begins
            form.source.warn(key.line, key.column, message, hint)
            texts.pop(key.text, None)
        elif isinstance(value, Scalar) and value.is_null:
            message = f"{key.text} has no value and is left out"
            form.source.warn(key.line, key.column, message, f"write {key.text}: and its value, or delete this line")
            texts.pop(key.text, None)
        elif isinstance(value, Scalar) and "\0" in value.text:
            form.source.error(value.line, value.column, f"the value of {key.text} contains a NUL", "delete it")
    return texts, {key.text: key.line + 1 for key, _ in node.entries}


def _shown(text: str) -> str:
    return text if text and text.isprintable() and text == text.strip() else repr(text)


def _spark_repositories(form: Form) -> tuple[str, ...]:
    texts = form.texts("repositories") or ()
    for node in (texts and form.entries("repositories")) or ():
        if isinstance(node, Scalar) and not re.fullmatch(_REPOSITORY, node.text):
            example = f"file://{node.text}" if node.text.startswith("/") else "https://repo.example.org/maven"
            message = f"{_shown(node.text)} is not the address of a repository"
            form.source.error(node.line, node.column, message, f"write - {example}, or delete this line")
    return texts


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
        _check_spark_name(package, name)
    return SparkPackage(*(package.text(name) or "" for name in SparkPackage._fields))


def _check_spark_name(package: Form, name: str) -> None:
    text = package.text(name) or ""
    if text and not re.fullmatch(_VERSION if name == "version" else _NAME, text, re.ASCII):
        package.error(name, f"{_shown(text)} is not the {name} of a package", f"write {name}: {_EXAMPLES[name]}")
