"""Command table: passports, assets, export and import."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import OLD_TARGET, PROJECT, RUN

_AT = "holdfast.cli.commands."
_RUNS = Option(
    ("--run", "-r", "--run-id"), "runs", "A run; may be repeated. Default: last.", kind="repeat", metavar="RUN"
)
LABELS = (
    Command(
        ("history", "tag"),
        "Give runs tags, to find them by: --where \"tags.dataset = 'v3'\".",
        _AT + "labels:tag",
        (_RUNS, PROJECT, Option(("--remove",), "remove", "Take this tag away.", kind="repeat", metavar="NAME")),
        (Positional("tags", "Tags; one without a value is true.", "NAME[=VALUE]", required=False, many=True),),
        examples=(("Two tags", "holdfast history tag -r 12 dataset=v3 kept"),),
    ),
    Command(
        ("history", "note"),
        "Write a note to runs, in the place of the one before; an empty one takes it away.",
        _AT + "labels:note",
        (_RUNS, PROJECT),
        (Positional("text", "The note.", "TEXT", required=False),),
    ),
    Command(
        ("history", "archive"),
        "Leave runs out of the list from now on; nothing is deleted.",
        _AT + "labels:archive",
        (_RUNS, PROJECT),
    ),
    Command(("history", "unarchive"), "List archived runs again.", _AT + "labels:unarchive", (_RUNS, PROJECT)),
)
ASSETS = (
    Command(
        ("history", "promote"),
        "Give one of a run's outputs a name and a version; assets/NAME.link in the project stands for it.",
        _AT + "assets:promote",
        (
            RUN,
            PROJECT,
            Option(
                ("--artifact-path", "-ap"),
                "artifact_path",
                "The output, for example outputs/model.pkl.",
                metavar="PATH",
                required=True,
            ),
            Option(("--name", "-n", "--assets"), "name", "Its name. Default: that of the file.", metavar="NAME"),
        ),
    ),
    Command(
        ("asset", "download"),
        "Fetch the file that a link stands for.",
        _AT + "assets:download",
        (
            Option(("--link-file", "-l"), "link", "The link.", metavar="FILE", required=True),
            Option(
                ("-d", "--directory", "--output-directory"),
                "directory",
                "Into this folder. Default: the link's own.",
                metavar="DIR",
            ),
            Option(("--overwrite",), "overwrite", "Replace another file of this name.", kind="flag"),
        ),
        examples=(("The promoted model", "holdfast asset download -l assets/mnist.link -d out"),),
    ),
    Command(("asset", "list"), "List what was promoted in this project.", _AT + "assets:list_assets", (PROJECT,)),
)
EXCHANGE = (
    Command(
        ("history", "export"),
        "Write runs with their code, logs, metrics and outputs into one zip.",
        _AT + "exchange:export",
        (
            Option(("--run", "-r", "--run-id"), "runs", "A run; may be repeated.", kind="repeat", metavar="RUN"),
            Option(("--all", "-A"), "all", "All runs of the project that have ended.", kind="flag"),
            Option(("--to",), "to", "The file.", metavar="FILE", required=True),
            PROJECT,
        ),
        examples=(("The whole history", "holdfast history export --all --to runs.zip"),),
    ),
    Command(
        ("history", "import"),
        "Take in runs from a zip of history export, or from MLflow. Those that are here already stay.",
        _AT + "exchange:take_in",
        (
            Option(("--mlflow",), "mlflow", "A store of MLflow: the folder mlruns, or mlflow.db.", metavar="PATH"),
            PROJECT,
        ),
        (Positional("file", "The zip.", "FILE", required=False),),
    ),
)
PASSPORTS = (
    Command(
        ("passport",),
        "Write a run as one signed file that anybody can check.",
        _AT + "passport:make",
        (
            RUN,
            PROJECT,
            Option(("--to",), "to", "The file. Default: RUN_ID.passport.zip, here.", metavar="FILE"),
            Option(("--key",), "key", "SSH key to sign with. Default: the first in ~/.ssh.", metavar="FILE"),
        ),
        examples=(("Sign by a key in your agent", "holdfast passport -r 12 --key ~/.ssh/id_ed25519.pub"),),
    ),
    Command(
        ("passport", "verify"),
        "Check a passport: nothing changed, added or missing since it was signed, and by whom.",
        _AT + "passport:verify",
        (
            Option(("--signer",), "signer", "A list of allowed signers, as ssh-keygen reads it.", metavar="FILE"),
            Option(("--key",), "key", "The public key that must have signed.", metavar="FILE"),
        ),
        (Positional("file", "The passport.", "FILE"),),
    ),
)
DIAGNOSTICS = (
    Command(
        ("experiment", "diagnostics"),
        "Write a report for somebody who helps you: no code, no outputs, secrets taken out. You see it first.",
        _AT + "diagnostics:write",
        (
            Option(("--run", "-r", "--run-id"), "run", "With the files of this run.", metavar="RUN"),
            OLD_TARGET,
            Option(("--to",), "to", "The file. Default: diagnostics.zip, here.", metavar="FILE"),
            Option(("--with-log",), "with_log", "With what the script printed.", kind="flag"),
            Option(("--yes", "-y"), "yes", "Do not ask.", kind="flag"),
            PROJECT,
        ),
        aliases=(("diagnostics",),),
    ),
)
