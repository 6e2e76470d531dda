"""What can complete the last word of a command line, from the command table. Shells ask for it at every Tab."""

from __future__ import annotations

import os

from holdfast.cli.parse import GLOBAL_OPTIONS, Option, placeholder
from holdfast.cli.table.commands import COMMANDS
from holdfast.cli.table.topics import GROUPS
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.cli.parse import Command, Positional

_RECENT_RUNS = 30
# What a value names: by the name of its option or positional, else by its placeholder.
_BY_NAME = {
    "run": "runs",
    "runs": "runs",
    "config": "configurations or targets",
    "target": "targets",
    "key": "settings",
    "template": "templates",
    "project": "folders",
    "folder": "folders",
    "script": "files",
    "command": "files",
    "source": "files",
}
_BY_PLACEHOLDER = {"FILE": "files", "PATH": "files", "DIR": "folders"}
# What NAME means in the commands of a group.
_NAMES = {"computetarget": "targets", "runconfiguration": "configurations", "trust": "configurations or targets"}
_MAKE_A_NAME = (("computetarget", "attach"), ("runconfiguration", "create"))


class Candidate(Record):
    """A word that may stand there, and a phrase that shells can show beside it."""

    word: str
    phrase: str = ""


class Candidates(Record):
    """``files``: the shell completes ``files`` or ``folders`` itself."""

    words: tuple[Candidate, ...] = ()
    files: str = ""


class _Line(Record):
    """The arguments of a command before the last one: whether that is a value, and how many words had no flag."""

    pending: Option | None = None
    words: int = 0
    ended: bool = False
    project: str = "."


def complete(tokens: Sequence[str]) -> Candidates:
    """For the words after ``holdfast``; the last one is incomplete and may be empty."""
    *before, current = tokens or [""]
    before = before[1:] if before[:1] in (["ml"], ["help"]) else before
    table = {name: command for command in COMMANDS for name in (command.words, *command.aliases)}
    named, at = _named(table, before)
    command = table.get(named)
    if command is None and (at < len(before) or current.startswith("-")):
        return Candidates(_matching(_options(GLOBAL_OPTIONS) if at == len(before) else (), current))
    inside = _matching(_names_in(table, named) if at == len(before) else (), current)
    if command is None:
        return Candidates(inside)
    candidates = _argument(command, _read(command, before[at:]), current)
    return candidates._replace(words=(*inside, *candidates.words))


def value_kind(command: Command, value: Option | Positional) -> str:
    """What a value names: ``runs``, ``files`` and so on; empty for numbers, new names and free text."""
    label = _label(value)
    if isinstance(value, Option) and value.choices:
        return "choices"
    if label in ("NAME", "WHAT") and value.name in ("name", "word"):
        return "" if command.words in _MAKE_A_NAME else _NAMES.get(command.words[0], "")
    if label.islower() and "|" in label:
        return "choices"
    return _BY_NAME.get(value.name) or _BY_PLACEHOLDER.get(label.partition("|")[0], "")


def _named(table: Mapping[tuple[str, ...], Command], tokens: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """The command or group that the words name, and the index of the first word after it."""
    prefixes = {name[:length] for name in table for length in range(1, len(name) + 1)}
    flags = {flag: option for option in GLOBAL_OPTIONS for flag in option.flags}
    named: tuple[str, ...] = ()
    at = 0
    while at < len(tokens):
        if (*named, tokens[at]) in prefixes:
            named = (*named, tokens[at])
            at += 1
        elif named not in table and tokens[at] in flags:
            at += 1 if flags[tokens[at]].kind == "flag" else 2
        else:
            break
    return named, at


def _names_in(table: Mapping[tuple[str, ...], Command], named: tuple[str, ...]) -> Iterable[Candidate]:
    """The commands of a group; at the top those that help lists: names of one word, and groups."""
    depth = len(named)
    names = {}
    for name, command in table.items():
        is_listed = not command.hidden and (named or name == command.short or (name[0],) in GROUPS)
        if len(name) > depth and name[:depth] == named and is_listed:
            phrase = command.phrase if len(name) == depth + 1 else GROUPS.get(name[: depth + 1], "")
            names[name[depth]] = phrase.removesuffix(".")
    return [Candidate(name, phrase) for name, phrase in sorted(names.items())]


def _read(command: Command, tokens: Sequence[str]) -> _Line:
    flags = {flag: option for option in (*GLOBAL_OPTIONS, *command.options) for flag in option.flags}
    line = _Line()
    for word in tokens:
        flag, equals, value = word.partition("=")
        option = flags.get(flag)
        if line.pending is not None:
            project = word if line.pending.name == "project" else line.project
            line = line._replace(pending=None, project=project)
        elif line.ended or not word.startswith("-") or word == "-":
            is_script = bool(command.rest) and line.words >= len(command.positionals)
            line = line._replace(words=line.words + 1, ended=line.ended or is_script)
        elif word == "--":
            line = line._replace(ended=True)
        elif option is not None and option.name == "project" and equals:
            line = line._replace(project=value)
        elif option is not None and option.kind != "flag" and not equals:
            line = line._replace(pending=option)
    return line


def _argument(command: Command, line: _Line, current: str) -> Candidates:
    if line.pending is not None:
        return _values(command, line.pending, line, current)
    flag, equals, value = current.partition("=")
    if current.startswith("-") and not line.ended:
        options = (*command.options, *GLOBAL_OPTIONS)
        if not equals:
            return Candidates(_matching(_options(options), current))
        option = next((option for option in options if flag in option.flags), None)
        candidates = Candidates() if option is None else _values(command, option, line, value)
        prefixed = tuple(candidate._replace(word=f"{flag}={candidate.word}") for candidate in candidates.words)
        return candidates._replace(words=prefixed)
    positionals = (*command.positionals, *((command.rest,) if command.rest else ()))
    if positionals:
        last = positionals[-1]
        is_more = bool(command.rest) or last.many
        if line.words < len(positionals) or is_more:
            return _values(command, positionals[min(line.words, len(positionals) - 1)], line, current)
        return Candidates()
    loose = next((option for option in command.options if option.loose), None)
    if loose is None or (line.words and loose.kind != "repeat"):
        return Candidates()
    return _values(command, loose, line, current)


def _values(command: Command, value: Option | Positional, line: _Line, current: str) -> Candidates:
    kind = value_kind(command, value)
    if kind in ("files", "folders"):
        return Candidates(files=kind)
    if kind == "choices":
        choices = value.choices if isinstance(value, Option) else ()
        return Candidates(_matching(map(Candidate, choices or _label(value).split("|")), current))
    if kind == "runs":
        return Candidates(_matching(_runs(line.project, deleted=command.words[-1] == "undelete"), current))
    if kind == "settings":
        from holdfast.settings import SETTINGS

        return Candidates(_matching((Candidate(name, setting.help) for name, setting in SETTINGS.items()), current))
    if kind == "templates":
        from holdfast.engine.new_project import templates

        files = "folders" if os.sep in current else ""
        return Candidates(_matching(map(Candidate, templates()), current), files)
    return Candidates(_matching(_targets(line.project, kind), current))


def _label(value: Option | Positional) -> str:
    return placeholder(value) if isinstance(value, Option) else value.label


def _targets(folder: str, kind: str) -> Iterable[Candidate]:
    if not kind:
        return
    from holdfast import project as projects
    from holdfast import target_lookup
    from holdfast.location import location

    places = target_lookup.folders(projects.find(folder).root, location())
    names = dict.fromkeys(target_lookup.targets(places), "target") if "targets" in kind else {}
    if "configurations" in kind:
        names.update(dict.fromkeys(target_lookup.configurations(places), "run configuration"))
    for name in sorted(names):
        yield Candidate(name, names[name])


def _runs(folder: str, *, deleted: bool) -> Iterable[Candidate]:
    """The newest runs of the project as they were last seen; no target is asked, and no store is made."""
    from holdfast import project as projects
    from holdfast.store import trash
    from holdfast.store.home import open_home
    from holdfast.store.index.index import Index

    home, project = open_home(create=False), projects.find(folder)
    if not home.id:
        return
    if deleted:
        for row in trash.rows(home, project.id)[:_RECENT_RUNS]:
            yield Candidate(str(row["run_number"]), str(row["run_id"]))
        return
    index = Index(home)
    try:
        records = index.recent(project.id, _RECENT_RUNS)
    finally:
        index.close()
    if records:
        yield Candidate("last", "the newest run")
    for record in records:
        arguments = record["arguments"] if isinstance(record["arguments"], list) else []
        line = " ".join((str(record["script_name"]), *map(str, arguments)))
        yield Candidate(str(record["run_number"]), f"{record['status']}, {record['target']}: {line}")


def _options(options: Iterable[Option]) -> Iterable[Candidate]:
    visible = [(flag, option.help) for option in options if not option.hidden for flag in option.flags]
    return [Candidate(flag, phrase) for flag, phrase in dict(reversed(visible)).items()][::-1]


def _matching(candidates: Iterable[Candidate], current: str) -> tuple[Candidate, ...]:
    return tuple(candidate for candidate in candidates if candidate.word.startswith(current))
