"""Reads what a project declares, with withdrawn packages replaced for its scripts, and writes the replacements."""

from __future__ import annotations

import os

from holdfast.engine.submit.lock import text_of
from holdfast.environments import gpu as flavour
from holdfast.environments import sources
from holdfast.environments.edits import applied
from holdfast.environments.read import read
from holdfast.environments.revival import retired, script_imports
from holdfast.environments.spec import python_of, settled
from holdfast.errors import ConfigError, InternalError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import Finding
    from holdfast.environments.edits import Edit
    from holdfast.environments.sources import Declared
    from holdfast.environments.spec import Facts, Interpreter, Spec
    from holdfast.target_lookup import Chosen


def read_replaced(
    root: str, chosen: Chosen, declared: Declared, script: str, interpreter: Interpreter | None
) -> tuple[Spec | None, list[Finding]]:
    """The declaration as it will be built; where the project uses Spark, with a Python that Spark runs on."""
    spec, findings = read(root, declared)
    if spec is None:
        return None, findings
    if chosen.config.framework != "Python":
        spec, more = _for_spark(root, spec, interpreter)
        findings += more
    return _replaced(root, spec, script, interpreter, findings)


def edits(root: str, spec: Spec, script: str, interpreter: Interpreter | None) -> list[Edit]:
    """The changes after which nothing that ``spec`` names is withdrawn, chosen for the project's scripts."""
    return retired.edits(spec, interpreter, tensorflow_1=_is_for_tensorflow_1(root, spec, script))


def fixed(
    root: str, chosen: Chosen, interpreter: Interpreter | None = None, gpu: Facts | None = None
) -> tuple[str, str, str]:
    """The file that declares the environment, its text, and its text with everything withdrawn replaced.

    ``gpu``: facts of a target; what keeps its GPU from being used is replaced too.
    """
    declared = sources.find(root, chosen.config, "")
    if declared is None:
        raise ConfigError("no environment is declared here", where=root, hint="holdfast env add PACKAGE")
    spec, findings = read(root, declared)
    if spec is None:
        from holdfast.engine.submit.environment import refuse

        refuse(findings)
        raise InternalError("a declaration without a spec", where=declared.file)
    before = text_of(os.path.join(root, declared.file), root) or ""
    changes = edits(root, spec, "", interpreter)
    gone = {(edit.entry.line, edit.entry.column) for edit in changes}
    idle = flavour.edits(spec, gpu) if gpu is not None else []
    changes += [edit for edit in idle if (edit.entry.line, edit.entry.column) not in gone]
    here = (edit for edit in changes if edit.entry.file == declared.file and edit.entry.line)
    return declared.file, before, applied(before, here)


def _replaced(
    root: str, spec: Spec, script: str, interpreter: Interpreter | None, findings: list[Finding]
) -> tuple[Spec, list[Finding]]:
    tensorflow_1 = _is_for_tensorflow_1(root, spec, script)
    new, warnings = retired.replaced(spec, retired.edits(spec, interpreter, tensorflow_1=tensorflow_1))
    places = {(finding.file, finding.line) for finding in findings}
    findings += [warning for warning in warnings if (warning.file, warning.line) not in places]
    return new, findings + retired.unmet(settled(new, interpreter), interpreter, tensorflow_1=tensorflow_1)


def _is_for_tensorflow_1(root: str, spec: Spec, script: str) -> bool:
    return retired.asks_tensorflow(spec) and script_imports.is_for_tensorflow_1(root, script)


def _for_spark(root: str, spec: Spec, interpreter: Interpreter | None) -> tuple[Spec, list[Finding]]:
    from holdfast.engine.submit import spark_request
    from holdfast.environments import spark_pins

    if not spark_request.uses_spark(root):
        return spec, []
    spec, replaced = spark_pins.replaced(spec)
    errors = spark_pins.findings(spec, python_of(settled(spec, interpreter), interpreter))
    return spec, [*replaced, *errors]
