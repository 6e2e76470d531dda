from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.parse import Command, HelpWanted, Option, Parsed, Positional, parse, usage_line
from holdfast.cli.table import commands as table
from holdfast.errors import UsageError

SUBMIT = Command(
    ("experiment", "submit"),
    "Run a script.",
    "nowhere:run",
    options=(
        Option(("--run-configuration", "-c"), "configuration", metavar="NAME"),
        Option(("--runconfig",), "configuration", hidden=True),
        Option(("--env", "-e"), "env", kind="repeat"),
        Option(("--wait",), "wait", kind="flag", trailing=True),
        Option(("--dry-run",), "dry_run", kind="flag"),
    ),
    rest=Positional("script", metavar="SCRIPT [ARGUMENT ...]", required=False),
    aliases=(("submit",),),
)
PROMOTE = Command(
    ("history", "promote"),
    "Keep a file of a run.",
    "nowhere:run",
    options=(
        Option(("--run", "-r"), "run", required=True),
        Option(("--artifact-path", "-ap"), "artifact_path"),
        Option(("--policy",), "policy", choices=("all", "small", "none"), default="small"),
    ),
)
ATTACH = Command(("computetarget", "attach"), "Attach.", "nowhere:run", options=(Option(("--name", "-n"), "name"),))
ATTACH_REMOTE = ATTACH._replace(words=("computetarget", "attach", "remote"))
INFO = Command(("info",), "About a run.", "nowhere:run", positionals=(Positional("run", required=False),))
EXECUTE = SUBMIT._replace(words=("execute", "start"), aliases=(), hidden=True)
_RUN = Option(("--run", "-r"), "run", metavar="RUN", default="last", loose=True)
LOGS = Command(("logs",), "Print a log.", "nowhere:run", options=(_RUN,))
COMPARE = Command(
    ("compare",),
    "Compare.",
    "nowhere:run",
    options=(Option(("--run", "-r"), "runs", kind="repeat", metavar="RUN", loose=True),),
)
TAG = LOGS._replace(words=("tag",), positionals=(Positional("tag"),))
COMMANDS = (SUBMIT, PROMOTE, ATTACH, ATTACH_REMOTE, INFO, EXECUTE, LOGS, COMPARE, TAG)

WORDS = st.text(st.characters(codec=None, exclude_categories=()), max_size=8) | st.sampled_from(
    ["-h", "--", "", "-o", "--wait", "--query", "-c", "json", "ml", "\udc80", "--x=1"]
)


def run(*argv: str) -> Parsed:
    parsed = parse(COMMANDS, argv)
    assert isinstance(parsed, Parsed)
    return parsed


def refusal(*argv: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        parse(COMMANDS, argv)
    return caught.value


def refusal_or_none(words: list[str]) -> UsageError | None:
    try:
        parse(COMMANDS, words)
    except UsageError as error:
        return error
    return None


def wanted(*argv: str) -> HelpWanted:
    outcome = parse(COMMANDS, argv)
    assert isinstance(outcome, HelpWanted)
    return outcome


def test_the_original_words_their_alias_and_the_ml_prefix_are_one_command() -> None:
    for words in (["experiment", "submit"], ["submit"], ["ml", "experiment", "submit"], ["ml", "submit"]):
        parsed = run(*words, "-c", "local", "train.py")._replace(compatible=False)
        assert parsed == Parsed(SUBMIT, run("submit", "-c", "local").values, ("train.py",))


def test_the_longest_name_wins() -> None:
    assert run("computetarget", "attach", "-n", "x").command is ATTACH
    assert run("computetarget", "attach", "remote", "-n", "x").command is ATTACH_REMOTE


@pytest.mark.parametrize("spelling", [["-c", "x"], ["-c=x"], ["--run-configuration", "x"], ["--run-configuration=x"]])
def test_spellings_of_a_value(spelling: list[str]) -> None:
    assert run("submit", *spelling).text("configuration") == "x"


def test_an_old_spelling_feeds_the_same_name() -> None:
    assert run("submit", "--runconfig", "x").text("configuration") == "x"


def test_defaults() -> None:
    parsed = run("submit")
    assert parsed.text("configuration") is None
    assert parsed.texts("env") == ()
    assert not parsed.flag("wait")
    assert run("history", "promote", "-r", "1").text("policy") == "small"


def test_the_last_of_a_single_option_wins_and_repeats_add_up() -> None:
    parsed = run("submit", "-c", "a", "-e", "A=1", "-c", "b", "-e", "B")
    assert parsed.text("configuration") == "b"
    assert parsed.texts("env") == ("A=1", "B")


def test_a_flag_of_two_letters_is_one_flag() -> None:
    assert run("history", "promote", "-r", "1", "-ap", "outputs/m").text("artifact_path") == "outputs/m"


def test_a_value_may_start_with_a_dash_unless_it_is_a_flag() -> None:
    assert run("history", "promote", "-r", "-5").text("run") == "-5"
    assert run("submit", "-c=--wait").text("configuration") == "--wait"
    assert run("submit", "-c=").text("configuration") == ""
    error = refusal("submit", "-c", "--wait", "x.py")
    assert error.what == "-c needs a value, but the next argument is '--wait'"
    assert error.hint.endswith("-c=VALUE")
    assert "--output=json" in refusal("submit", "-c", "--output=json").what
    assert "'--'" in refusal("submit", "-c", "--", "x.py").what


@pytest.mark.parametrize(
    "argv",
    [
        ["-o", "tsv", "history", "promote", "-r", "1"],
        ["history", "-o", "tsv", "promote", "-r", "1"],
        ["history", "promote", "-o", "tsv", "-r", "1"],
        ["ml", "history", "promote", "-r", "1", "--output=tsv"],
        ["-o", "json", "history", "promote", "-r", "1", "-o", "tsv"],
    ],
)
def test_global_options_stand_anywhere(argv: list[str]) -> None:
    parsed = run(*argv)
    assert parsed.text("output") == "tsv"
    assert parsed.text("run") == "1"


def test_global_options_after_the_script_are_the_scripts() -> None:
    parsed = run("submit", "--debug", "train.py", "-o", "json", "--verbose")
    assert parsed.flag("debug")
    assert not parsed.flag("verbose")
    assert parsed.text("output") is None
    assert parsed.rest == ("train.py", "-o", "json", "--verbose")


@given(st.lists(WORDS, max_size=6))
def test_the_scripts_words_are_untouched(words: list[str]) -> None:
    expected = words[:-1] if words and words[-1] == "--wait" else words
    assert run("submit", "-c", "local", "train.py", *words).rest == ("train.py", *expected)
    assert run("submit", "-c", "local", "--", *words).rest == tuple(words)


@given(st.lists(WORDS, max_size=8))
def test_any_words_are_parsed_or_refused_with_an_explanation(words: list[str]) -> None:
    error = refusal_or_none(words)
    if error is not None:
        assert error.what.isprintable()
        assert error.where.startswith("holdfast") or "; " in error.what
        assert error.answer or "; " in error.what
        assert error.hint.isprintable()


def test_a_very_last_wait_is_understood_unless_dashes_ended_the_options() -> None:
    parsed = run("submit", "-c", "remoteVM", "x.py", "1", "--wait")
    assert parsed.flag("wait")
    assert parsed.rest == ("x.py", "1")
    assert run("submit", "x.py", "--dry-run").rest == ("x.py", "--dry-run")
    parsed = run("submit", "--", "x.py", "--wait")
    assert not parsed.flag("wait")
    assert parsed.rest == ("x.py", "--wait")
    assert run("submit", "--", "--wait").rest == ("--wait",)


def test_dashes_end_the_options_of_a_command_without_a_script() -> None:
    assert run("info", "--", "-5").text("run") == "-5"
    assert run("info", "-").text("run") == "-"


def test_help() -> None:
    assert wanted("-h") == HelpWanted((), None, asked=True)
    assert wanted("history", "--help") == HelpWanted(("history",), None, asked=True)
    assert wanted("help", "submit", "train.py") == HelpWanted(SUBMIT.words, SUBMIT, asked=True)
    assert wanted("submit", "-c", "x", "-h", "--no-such") == HelpWanted(SUBMIT.words, SUBMIT, asked=True)
    assert wanted("history", "promote", "-h").command is PROMOTE


def test_too_few_words_want_help_but_did_not_ask() -> None:
    for argv, words in (([], ()), (["ml"], ()), (["history"], ("history",)), (["--debug"], ())):
        assert wanted(*argv) == HelpWanted(words, None, asked=False)


def test_unknown_command_or_option_shows_the_nearest_one_in_one_line() -> None:
    for argv, line in (
        (["submt"], "unknown command 'submt'; did you mean 'submit'?"),
        (["history", "promte"], "unknown command 'history promte'; did you mean 'history promote'?"),
        (["promote"], "unknown command 'promote'; did you mean 'history promote'?"),
        (["exekute"], "unknown command 'exekute'; see holdfast -h"),
        (["history", "xyz"], "unknown command 'history xyz'; see holdfast history -h"),
        (
            ["submit", "--run-configuratoin"],
            "unknown option '--run-configuratoin'; did you mean '--run-configuration'?",
        ),
        (["history", "--frobnicate"], "unknown option '--frobnicate'; see holdfast -h"),
        (["info", "--frobnicate"], "unknown option '--frobnicate'; see holdfast info -h"),
    ):
        error = refusal(*argv)
        assert (str(error), error.answer, error.hint) == (line, "", "")


def test_invalid_choice_shows_the_nearest_one_and_all() -> None:
    error = refusal("-o", "tabel", "info")
    assert error.what == "invalid value 'tabel' for -o"
    assert error.hint == "did you mean 'table'? the choices are json, jsonc, table, tsv, csv, yaml"
    assert refusal("history", "promote", "-r", "1", "--policy", "x").hint == "the choices are all, small, none"


def test_missing_and_superfluous_arguments_are_refused() -> None:
    assert refusal("history", "promote").what == "missing --run"
    assert refusal("history", "promote", "-r").what == "-r needs a value"
    assert refusal("submit", "--wait=yes").what == "--wait takes no value, but got 'yes'"
    assert refusal("info", "1", "2\x1b[31m").what == r"unexpected argument '2\x1b[31m'"


def test_ml_prefix_asks_for_the_output_of_the_original() -> None:
    assert run("ml", "info").compatible
    assert not run("info").compatible


def test_usage_lines() -> None:
    assert usage_line(PROMOTE) == "holdfast history promote --run RUN [OPTIONS]"
    assert usage_line(INFO) == "holdfast info [RUN]"
    many = INFO._replace(positionals=(Positional("run", many=True),))
    assert usage_line(many) == "holdfast info RUN ..."


def test_required_and_many_positionals() -> None:
    many = INFO._replace(positionals=(Positional("run", many=True),))
    parsed = parse([many], ["info", "1", "2"])
    assert isinstance(parsed, Parsed)
    assert parsed.texts("run") == ("1", "2")
    with pytest.raises(UsageError, match="missing RUN"):
        parse([many], ["info"])


def test_a_command_may_use_a_global_letter_for_itself() -> None:
    own = INFO._replace(options=(Option(("--volume", "-v"), "volume"),))
    parsed = parse([own], ["info", "-v", "x"])
    assert isinstance(parsed, Parsed)
    assert parsed.text("volume") == "x"
    assert not parsed.flag("verbose")


def test_run_may_be_named_without_its_flag() -> None:
    assert run("logs", "12").text("run") == run("logs", "-r", "12").text("run") == "12"
    assert run("logs").text("run") == "last"
    assert run("compare", "1", "-r", "2", "3").texts("runs") == ("2", "1", "3")
    assert usage_line(LOGS) == "holdfast logs [OPTIONS] [RUN]"
    assert usage_line(COMPARE) == "holdfast compare [OPTIONS] [RUN ...]"


def test_second_word_is_not_a_run() -> None:
    assert refusal("logs", "12", "13").what == "unexpected argument '13'"
    assert refusal("logs", "-r", "12", "13").what == "--run and '13' are both given"
    assert refusal("tag", "kept", "12").what == "unexpected argument '12'"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("reindex", "store reindex"),
        ("list", "runs"),
        ("stop", "cancel"),
        ("history remove", "delete"),
        ("ls", "runs"),
        ("sumbit", "submit"),
        ("version", "--version"),
    ],
)
def test_unknown_command_names_the_one_that_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(table.COMMANDS, typed.split())
    assert caught.value.what == f"unknown command '{typed}'; did you mean '{meant}'?"


def test_option_before_the_script_that_is_the_script_s_own() -> None:
    assert refusal("submit", "--lr", "0.1", "train.py").what == (
        "unknown option '--lr'; options of the script go after the script"
    )


@pytest.mark.parametrize(
    ("typed", "runs", "left"),
    [
        ("tag 13 x=1", ("13",), ("x=1",)),
        ("tag 12 13 y=2", ("12", "13"), ("y=2",)),
        ("tag digits_1794977355586 kept", ("digits_1794977355586",), ("kept",)),
        ("tag last kept", ("last",), ("kept",)),
        ("tag kept 13", (), ("kept", "13")),
        ("tag -r 12 13", ("12",), ("13",)),
        ("tag 13=1 model_1=x", (), ("13=1", "model_1=x")),
        ("tag 13 --remove x", ("13",), ()),
        ("tag -- 13 x", (), ("13", "x")),
    ],
)
def test_first_words_of_tag_that_can_only_be_runs_are_the_runs(typed: str, runs: object, left: object) -> None:
    parsed = parse(table.COMMANDS, typed.split())
    assert isinstance(parsed, Parsed)
    assert (parsed.values["runs"], parsed.values["tags"]) == (runs, left)


@pytest.mark.parametrize(
    ("typed", "named", "left"),
    [
        ("exec 13 ls -l", "13", ("ls", "-l")),
        ("exec 13 -- ls", "13", ("ls",)),
        ("exec -- 13 ls", None, ("13", "ls")),
        ("exec -r last 13 ls", "last", ("13", "ls")),
        ("exec ls 13", None, ("ls", "13")),
    ],
)
def test_first_word_of_exec_that_can_only_be_a_run_is_the_run(typed: str, named: str | None, left: object) -> None:
    parsed = parse(table.COMMANDS, typed.split())
    assert isinstance(parsed, Parsed)
    assert (parsed.text("run"), parsed.rest) == (named, left)


def test_note_takes_a_run_before_its_text_and_refuses_a_number_alone() -> None:
    parsed = parse(table.COMMANDS, ["note", "13", "with spaces"])
    assert isinstance(parsed, Parsed)
    assert (parsed.values["runs"], parsed.text("text")) == (("13",), "with spaces")
    with pytest.raises(UsageError) as caught:
        parse(table.COMMANDS, ["note", "13"])
    assert caught.value.what == "missing TEXT: '13' names a run"
    assert "holdfast note -r last 13" in caught.value.hint
    with pytest.raises(UsageError):
        parse(table.COMMANDS, ["exec", "13"])
