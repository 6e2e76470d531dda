"""Rows of Holdfast's command table as arguments of the Azure CLI, for help and completion."""

from __future__ import annotations

import json
import sys
from typing import Any

_HELP = ("--help", "-h")
# Options that the Azure CLI gives to every command, and whether a value follows.
_GLOBAL = {
    **dict.fromkeys(("--output", "-o", "--query", "--subscription"), True),
    **dict.fromkeys(("--help", "-h", "--debug", "--verbose", "--only-show-errors"), False),
}


def help_text(row: dict[str, Any]) -> str:
    """YAML for the help of the Azure CLI; JSON is YAML."""
    entry: dict[str, Any] = {"type": "command", "short-summary": row["summary"]}
    words = [f"{word['label']}: {word['help']}" for word in row["positionals"]]
    if row["description"] or words:
        entry["long-summary"] = "\n".join(filter(None, (row["description"], *words)))
    if row["examples"]:
        entry["examples"] = [{"name": text, "text": line} for text, line in row["examples"]]
    return json.dumps(entry)


def register(context: Any, row: dict[str, Any], *, required: bool) -> None:
    """Add the options; they are ``required`` only in help, as Holdfast itself checks what was typed."""
    for option in row["options"]:
        flags = [flag for flag in option["flags"] if flag not in _GLOBAL]
        if option["hidden"] or not flags:
            continue
        settings: dict[str, Any] = {"options_list": flags, "help": option["help"], "required": False}
        if option["takes_value"]:
            settings["metavar"] = option["metavar"]
            settings["required"] = required and option["required"]
        else:
            settings["action"] = "store_true"
        if option["choices"]:
            settings["choices"] = option["choices"]
        context.extra(f"holdfast_{option['name']}", **settings)


def asks_for_help(row: dict[str, Any], words: list[str]) -> bool:
    own, _ = split(row, words)
    return any(word in _HELP for word in own)


def split(row: dict[str, Any], words: list[str]) -> tuple[list[str], list[str]]:
    """The words that are for the command, and those from a script's name on."""
    if not row["passes_on"]:
        return words, []
    with_value = {flag: option["takes_value"] for option in row["options"] for flag in option["flags"]}
    with_value = {**_GLOBAL, **with_value}
    loose = len(row["positionals"]) - 1
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--" or word in row["starts"]:
            break
        if not word.startswith("-") or word == "-":
            if loose == 0:
                break
            loose -= 1
        at += 2 if with_value.get(word) else 1
    return words[:at], words[at:]


def as_typed(expanded: list[str]) -> list[str]:
    """The command line before the Azure CLI read files into it, where it is this process's own."""
    typed = sys.argv[1:]
    changed = [at for at, pair in enumerate(zip(typed, expanded, strict=False)) if pair[0] != pair[1]]
    is_own = len(typed) == len(expanded) and all(
        "@" in typed[at] or typed[at].lower() == expanded[at] for at in changed
    )
    return typed if is_own else list(expanded)


def value_of(words: list[str], *flags: str) -> str | None:
    """The value of an option in words without a script: the last one given."""
    value = None
    for at, word in enumerate(words):
        name, equals, text = word.partition("=")
        if name in flags and equals:
            value = text
        elif word in flags and at + 1 < len(words):
            value = words[at + 1]
    return value


def without(words: list[str], flags: tuple[str, ...], *, with_value: bool) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in flags:
            skip = with_value
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept
