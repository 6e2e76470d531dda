"""Reads the file that declares an environment into its spec."""

from __future__ import annotations

from holdfast.amlconfig.types import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.environments.sources import Declared
    from holdfast.environments.spec import Spec


def read(root: str, declared: Declared) -> tuple[Spec | None, list[Finding]]:
    """The environment, or ``None`` exactly when a finding is an error."""
    spec, findings = _reader(declared.kind)(root, declared.file)
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    if not spec.pip and not any(entry.text.partition("=")[0] not in ("python", "pip") for entry in spec.conda):
        findings += _unread(declared, spec)
    return spec._replace(warnings=tuple(findings)), findings


def stated(root: str, declared: Declared) -> Spec:
    """What can be read of the file, even where other lines of it make no sense."""
    return _reader(declared.kind)(root, declared.file)[0]


def _reader(kind: str) -> Callable[[str, str], tuple[Spec, list[Finding]]]:
    if kind == "conda":
        from holdfast.environments.conda import read_conda_file

        return read_conda_file
    if kind == "requirements":
        from holdfast.environments.requirements import read_requirements

        return read_requirements
    from holdfast.environments import frozen, pyproject

    return {
        "uv.lock": frozen.read_uv_lock,
        "pylock": frozen.read_pylock,
        "pyproject": pyproject.read_pyproject,
        "script": pyproject.read_script,
    }[kind]


def _unread(declared: Declared, spec: Spec) -> list[Finding]:
    """An empty file still decides; a second file beside it was probably meant instead."""
    if spec.locked or spec.own_package or not declared.passed_over:
        return []
    others = ", ".join(declared.passed_over)
    message = f"declares no packages, and comes before {others}, which is not read"
    return [Finding("warning", declared.file, 0, 0, message, f"delete {declared.file} or name the packages in it")]
