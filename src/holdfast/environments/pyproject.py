"""``pyproject.toml`` and the same words in the header of a script (PEP 723)."""

from __future__ import annotations

import os
import re
import sys

from holdfast.environments.files import exists, read_text
from holdfast.environments.pip import PipItems, shown
from holdfast.environments.requirements import pip_spec
from holdfast.environments.spec import Entry
from holdfast.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.amlconfig.types import Finding
    from holdfast.environments.spec import Spec
    from holdfast.model import Json

FILE = "pyproject.toml"
_BEGIN, _END = "# /// script", "# ///"
_LONGEST_LINE = 1 << 16
_MOST_PARTS = 200
_STRING = r"\"[^\"]*\"|'[^']*'"


def declares(root: str) -> bool:
    """Whether ``pyproject.toml`` says what to install; most such files only configure tools."""
    document = parse_toml(FILE, read_text(root, FILE))
    project = _project(document)
    return "dependencies" in project or _is_dynamic(project) or bool(project and is_package(root, document))


def names_package(root: str) -> bool:
    """Whether its ``[project]`` requires a package, or is one itself."""
    document = parse_toml(FILE, read_text(root, FILE))
    project = _project(document)
    return _names_any(project) or _is_dynamic(project) or bool(project and is_package(root, document))


def header_names_package(root: str, file: str) -> bool:
    """A damaged header counts: its reader says what is wrong with it."""
    headers = list(_headers(read_text(root, file)))
    return len(headers) != 1 or _names_any(parse_toml(file, *headers[0]))


def header_python(root: str, file: str) -> str | None:
    """What ``requires-python`` of a header says."""
    headers = list(_headers(read_text(root, file)))
    return requires_python(file, parse_toml(file, *headers[0])) if len(headers) == 1 else None


def read_pyproject(root: str, file: str) -> tuple[Spec, list[Finding]]:
    text = read_text(root, file)
    document = parse_toml(file, text)
    project = _project(document)
    items = PipItems(root)
    items.own_package = is_package(root, document)
    _take_all(items, file, text, project)
    if _is_dynamic(project):
        _take_dynamic(items, file, document)
    _take_uv_settings(items, file, text, document)
    return pip_spec(file, items, requires_python(file, project)), items.findings


def take_project(items: PipItems) -> None:
    """What the project itself requires, where that is written as data; a ``setup.py`` is a program."""
    text = read_text(items.root, FILE) if exists(items.root, FILE) else ""
    project = _project(parse_toml(FILE, text))
    if project and not _is_dynamic(project):
        _take_all(items, FILE, text, project)
        _take_extras(items, text, _table(project, "optional-dependencies"))
        return
    for name in ("setup.py", "setup.cfg"):
        if exists(items.root, name) and "install_requires" in read_text(items.root, name):
            message = "the requirements of this project's own package are not read from here"
            items.warn(Entry("", name), message, "list those packages next to -e . as well")
    for extra in sorted(items.own_extras):
        items.error(Entry("", FILE), f"the extra {extra} of this project cannot be read", "name its packages instead")


def read_script(root: str, file: str) -> tuple[Spec, list[Finding]]:
    text = read_text(root, file)
    headers = list(_headers(text))
    if len(headers) != 1:
        count = "more than one '# /// script' header" if headers else "a '# /// script' header without its end"
        raise ConfigError(f"this script has {count}", where=file, hint="one header, ended by a line '# ///'")
    document = parse_toml(file, *headers[0])
    items = PipItems(root)
    _take_all(items, file, text, document)
    _take_uv_settings(items, file, text, document)
    return pip_spec(file, items, requires_python(file, document)), items.findings


def _headers(text: str) -> Iterator[tuple[str, int]]:
    """Each header (PEP 723): its comment lines without their marks, and the number of lines before them."""
    content: list[str] | None = None
    for number, line in enumerate(text.split("\n")):
        if content is None:
            content = [] if line == _BEGIN else None
        elif line == _END and content:
            yield "".join(content), number - len(content)
            content = None
        elif line == "#" or line.startswith("# "):
            content.append(f"{line[2:]}\n")
        else:
            content = None


def parse_toml(file: str, text: str, lines_before: int = 0) -> Json:
    """The content of a file, or of its header, before which the file has so many lines."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    _refuse_costly(file, text, lines_before)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # TOMLDecodeError is one, and so is an integer of too many digits
        what = "the header of this script is not valid TOML" if lines_before else "this file is not valid TOML"
        reason, position = _without_place(str(error), text, lines_before)
        raise ConfigError(what, where=f"{file}{position}", answer=shown(reason), hint="correct that line") from None


def _refuse_costly(file: str, text: str, lines_before: int) -> None:
    """The TOML reader takes the square of the number of parts of a dotted key."""
    for number, line in enumerate(text.split("\n"), start=1 + lines_before):
        if len(line) > _LONGEST_LINE:
            raise ConfigError(f"this line is longer than {_LONGEST_LINE} characters", where=f"{file}:{number}")
        if line.count(".") > _MOST_PARTS and re.sub(_STRING, "", line).count(".") > _MOST_PARTS:
            raise ConfigError(f"this line has a name of more than {_MOST_PARTS} parts", where=f"{file}:{number}")


def _without_place(message: str, text: str, lines_before: int) -> tuple[str, str]:
    """What the TOML reader says, and the place as ``:line:column``, which older readers have in their text only."""
    reason, mark, location = message.partition(" (at ")
    if numbers := re.fullmatch(r"line (\d+), column (\d+)\)", location):
        column = int(numbers[2]) + (len("# ") if lines_before else 0)
        return reason, f":{int(numbers[1]) + lines_before}:{column}"
    if mark and location == "end of document)":
        return f"{reason} at the end", f":{lines_before + len(text.splitlines())}"
    digits = re.search(r"[0-9][0-9_]{3999,}", text)  # Python converts no number that long, and does not say where
    return message, f":{lines_before + text.count(chr(10), 0, digits.start()) + 1}" if digits else ""


def is_package(root: str, document: Json) -> bool:
    """Whether the project itself is to be installed: as uv decides, or because it is laid out as one."""
    stated = _table(_table(document, "tool"), "uv").get("package")
    if isinstance(stated, bool):
        return stated
    name = re.sub(r"[-_.]+", "_", str(_table(document, "project").get("name", ""))).lower()
    laid_out = bool(name) and exists(root, os.path.join("src", name, "__init__.py"))
    return "build-system" in document or laid_out


def requires_python(file: str, table: Json) -> str | None:
    stated = table.get("requires-python", "")
    if not isinstance(stated, str):
        raise ConfigError("requires-python must be a string", where=file, hint='write requires-python = ">=3.11"')
    return ",".join(sorted(stated.replace(" ", "").split(","))) or None


def requirements(document: Json) -> list[str]:
    """The requirements of ``[project]`` as written, where they are well formed."""
    dependencies = _project(document).get("dependencies", [])
    return [item for item in dependencies if isinstance(item, str)] if isinstance(dependencies, list) else []


def _take_all(items: PipItems, file: str, text: str, table: Json) -> None:
    dependencies = table.get("dependencies", [])
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        items.error(Entry("", file), "dependencies must be a list of strings", 'write dependencies = ["name==1.2"]')
        return
    for item in dependencies:
        at = _entry(file, text, item)
        if item.strip().startswith("-"):
            items.error(at, f"{shown(item)} is an option, not a requirement", "put options into requirements.txt")
        else:
            items.take(at)


def _take_extras(items: PipItems, text: str, extras: Json) -> None:
    by_name = {re.sub(r"[-_.]+", "-", name).lower(): packages for name, packages in extras.items()}
    for extra in sorted(items.own_extras):
        if extra in by_name:
            _take_all(items, FILE, text, {"dependencies": by_name[extra]})
        else:
            known = ", ".join(sorted(by_name)) or "none"
            items.error(Entry("", FILE), f"this project has no extra {extra}", f"its extras: {known}")


def _take_dynamic(items: PipItems, file: str, document: Json) -> None:
    """setuptools can be told to read the dependencies from requirement files."""
    setuptools = _table(_table(_table(document, "tool"), "setuptools"), "dynamic")
    named = _table(setuptools, "dependencies").get("file", [])
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    for name in names:
        items.take(Entry("", file, raw=f"-r {name}"))
    if not names:
        message = "the dependencies are computed when the package is built, so they cannot be read"
        items.error(Entry("", file), message, "write them under [project] as dependencies = [...]")


def _take_uv_settings(items: PipItems, file: str, text: str, document: Json) -> None:
    uv = _table(_table(document, "tool"), "uv")
    indexes = uv.get("index", [])
    for index in indexes if isinstance(indexes, list) else ():
        url = index.get("url") if isinstance(index, dict) else None
        if isinstance(url, str):
            option = "--index-url" if index.get("default") is True else "--extra-index-url"
            items.take(_entry(file, text, url)._replace(raw=f"{option} {url}"))
    for option in ("index-url", "extra-index-url"):  # the older spelling, which uv still reads
        stated = uv.get(option, [])
        for url in [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else ():
            items.take(_entry(file, text, str(url))._replace(raw=f"--{option} {url}"))
    for name, source in _table(uv, "sources").items():
        if isinstance(source, dict) and "index" in source:
            continue
        message = f"[tool.uv.sources] of {shown(name)} is only used through a uv.lock"
        items.error(_entry(file, text, name), message, "run uv lock; the packages of the lock file are then installed")


def _project(document: Json) -> Json:
    project = document.get("project", {})
    if not isinstance(project, dict):
        raise ConfigError("project must be a table", where=FILE, hint="write [project] on a line of its own")
    return project


def _names_any(table: Json) -> bool:
    """Whether there are dependencies; a value of another type counts: the reader of the file says what is wrong."""
    return table.get("dependencies", []) != []


def _is_dynamic(project: Json) -> bool:
    dynamic = project.get("dynamic", [])
    if not isinstance(dynamic, list):
        raise ConfigError("dynamic must be a list of strings", where=FILE, hint='write dynamic = ["version"]')
    return "dependencies" in dynamic


def _table(document: Json, name: str) -> Json:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _entry(file: str, text: str, item: str) -> Entry:
    """TOML readers keep no places, so the item is looked for."""
    for number, line in enumerate(text.split("\n"), start=1):
        column = line.find(item)
        if column >= 0:
            return Entry("", file, number, column + 1, item)
    return Entry("", file, raw=item)
