"""Words without a flag that name runs: all words of ``logs 12``, the first ones of ``tag 12 kept``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Command, Option, Value, Values


def loose_option(command: Command) -> Option | None:
    """The option whose value may be given without its flag."""
    has_words = bool(command.positionals or command.rest)
    return next((option for option in command.options if option.leading or (option.loose and not has_words)), None)


def take(
    command: Command, loose: list[str], rest: list[str], values: Values, after_dashes: bool
) -> tuple[list[str], list[str]]:
    """Give words to the option that takes them; return those that are left over, and the script's."""
    option = loose_option(command)
    if option is None:
        return loose, rest
    if not option.leading:
        return _take_all(option, loose, values), rest
    if after_dashes or values.values[option.name]:
        return loose, rest  # the run is named by its flag, so that a first word that looks like one is none
    if command.rest is None:
        return _take_leading(command, option, loose, values), rest
    left = _take_leading(command, option, rest, values)
    return loose, left[1:] if left != rest and left[:1] == ["--"] else left


def names_run(word: str) -> bool:
    """Whether a word can only be a run: ``last``, a number, or a run id."""
    name, _, digits = word.rpartition("_")
    is_id = bool(name) and len(digits) == 13 and "=" not in name
    return word == "last" or (digits.isascii() and digits.isdigit() and (is_id or (digits == word and len(word) < 10)))


def _take_all(option: Option, tokens: list[str], values: Values) -> list[str]:
    if not tokens:
        return tokens
    if option.kind == "repeat":
        values.values[option.name] = (*_so_far(values.values[option.name]), *tokens)
        return []
    if values.values[option.name] != option.default:
        from holdfast.present.terminal import show

        values.refuse(f"{option.flags[0]} and '{show(tokens[0])}' are both given")
    values.values[option.name] = tokens[0]
    return tokens[1:]


def _take_leading(command: Command, option: Option, tokens: list[str], values: Values) -> list[str]:
    count = 0
    while count < len(tokens) and names_run(tokens[count]) and (option.kind == "repeat" or count == 0):
        count += 1
    if not count:
        return tokens
    values.values[option.name] = tuple(tokens[:count]) if option.kind == "repeat" else tokens[0]
    single = next((word for word in command.positionals if not word.many), None)
    if count == len(tokens) and single is not None:
        hint = f"if it is the {single.label}: {command.title} {option.flags[1]} last {tokens[-1]}"
        values.refuse(f"missing {single.label}: '{tokens[-1]}' names a run", hint)
    return tokens[count:]


def _so_far(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
