"""Command table: passports, assets, export and import."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import OLD_TARGET, PROJECT, RUN

_AT = "holdfast.cli.commands."
_RUNS = Option(
    ("--run", "-r", "--run-id"),
    "runs",
    "A run. Default: last.",
    kind="repeat",
    metavar="RUN",
    loose=True,
)
_LEADING = _RUNS._replace(leading=True)
LABELS = (
    Command(
        ("history", "tag"),
        "Add tags to runs; find them with --where \"tags.dataset = 'v3'\".",
        _AT + "labels:tag",
        (_LEADING, PROJECT, Option(("--remove",), "remove", "Remove this tag.", kind="repeat", metavar="NAME")),
        (Positional("tags", "Tags; one without a value is true.", "NAME[=VALUE]", required=False, many=True),),
        aliases=(("tag",),),
        examples=(
            ("Two tags", "holdfast tag 12 dataset=v3 kept"),
            ("A tag that is a number", "holdfast tag -r 12 2026"),
        ),
        description="Numbers, run ids or last before other arguments name the runs, unless -r does.",
    ),
    Command(
        ("history", "note"),
        "Set the note of runs; an empty note removes it.",
        _AT + "labels:note",
        (_LEADING, PROJECT),
        (Positional("text", "The note.", "TEXT", required=False),),
        aliases=(("note",),),
        examples=(("The note of run 12", "holdfast note 12 'with the new data'"),),
    ),
    Command(
        ("history", "archive"),
        "Hide runs from the list; nothing is deleted.",
        _AT + "labels:archive",
        (_RUNS, PROJECT),
        aliases=(("archive",),),
    ),
    Command(
        ("history", "unarchive"),
        "Show archived runs in the list again.",
        _AT + "labels:unarchive",
        (_RUNS, PROJECT),
        aliases=(("unarchive",),),
    ),
)
ASSETS = (
    Command(
        ("history", "promote"),
        "Register an output of a run as a named, versioned asset; writes assets/NAME.link to the project.",
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
            Option(
                ("--name", "-n", "--assets"),
                "name",
                "Name of the asset. Default: the name of the file.",
                metavar="NAME",
            ),
        ),
        aliases=(("promote",),),
    ),
    Command(
        ("asset", "download"),
        "Download the file that an asset link refers to.",
        _AT + "assets:download",
        (
            Option(("--link-file", "-l"), "link", "The link.", metavar="FILE", required=True),
            Option(
                ("-d", "--directory", "--output-directory"),
                "directory",
                "Destination folder. Default: the folder of the link.",
                metavar="DIR",
            ),
            Option(("--overwrite",), "overwrite", "Overwrite an existing file.", kind="flag"),
        ),
        examples=(("The promoted model", "holdfast asset download -l assets/mnist.link -d out"),),
    ),
    Command(("asset", "list"), "List the assets of this project.", _AT + "assets:list_assets", (PROJECT,)),
)
EXCHANGE = (
    Command(
        ("history", "export"),
        "Write runs into one zip, or for MLflow, TensorBoard, CSV.",
        _AT + "exchange:export",
        (
            Option(("--run", "-r", "--run-id"), "runs", "A run.", kind="repeat", metavar="RUN", loose=True),
            Option(("--all", "-A"), "all", "All runs of the project that have ended.", kind="flag"),
            Option(
                ("--to",),
                "to",
                "A zip file with everything, or a format: mlflow, tensorboard, csv, parquet.",
                metavar="FILE|FORMAT",
                required=True,
            ),
            Option(
                ("--into",),
                "into",
                "For a format: the folder, or MLflow's tracking URI. Default: holdfast-FORMAT, or what mlflow finds.",
                metavar="FOLDER|URI",
            ),
            PROJECT,
        ),
        aliases=(("export",),),
        examples=(
            ("The whole history", "holdfast export --all --to runs.zip"),
            ("For tensorboard --logdir tb", "holdfast export -r 12 -r 13 --to tensorboard --into tb"),
            ("To an MLflow server", "holdfast export --all --to mlflow --into http://127.0.0.1:5000"),
        ),
    ),
    Command(
        ("history", "import"),
        "Import runs from a zip of holdfast export or from MLflow. Runs that already exist are skipped.",
        _AT + "exchange:take_in",
        (
            Option(("--mlflow",), "mlflow", "An MLflow store: the folder mlruns, or mlflow.db.", metavar="PATH"),
            PROJECT,
        ),
        (Positional("file", "The zip.", "FILE", required=False),),
        aliases=(("import",),),
    ),
)
TEAM = (
    Command(
        ("history", "push"),
        "Add your ended runs to a shared folder, or to a backup.",
        _AT + "team:push",
        (Option(("--all", "-A"), "all", "Runs of all projects.", kind="flag"), PROJECT),
        (Positional("folder", "A folder, empty at first; TARGET:FOLDER is on a target.", "FOLDER"),),
        aliases=(("push",),),
        description="Only new runs are sent, and nothing in the folder is changed.",
        examples=(
            ("Share this project's runs", "holdfast history push /mnt/team/history"),
            ("Share them through a machine over SSH", "holdfast history push gpu1:team/history"),
            ("Back up the store", "holdfast history push -A /mnt/disk/holdfast"),
        ),
    ),
    Command(
        ("history", "pull"),
        "Add runs of others to your history: from a folder of holdfast history push, or from a target.",
        _AT + "team:pull",
        (
            Option(
                ("--run-configuration", "-c", "--runconfig"),
                "config",
                "Run configuration or target: add the runs of other clients there.",
                metavar="NAME",
            ),
            Option(("--all", "-A"), "all", "From a folder: runs of all projects.", kind="flag"),
            Option(
                ("--author",),
                "author",
                "From a folder: only what this user or store pushed. Default: all of them.",
                metavar="USER|ID",
            ),
            PROJECT,
        ),
        (Positional("folder", "A folder of holdfast history push; TARGET:FOLDER.", "FOLDER", required=False),),
        aliases=(("pull",),),
        description="Run ids stay the same; run numbers are new. Runs of a target can be canceled afterwards.",
        examples=(
            ("Runs of the team", "holdfast history pull /mnt/team/history"),
            ("The same from a machine over SSH", "holdfast history pull gpu1:team/history"),
            ("Restore a store from a backup", "holdfast history pull -A /mnt/disk/holdfast"),
            ("Runs of other clients on a target", "holdfast history pull -c gpu1"),
        ),
    ),
)
PASSPORTS = (
    Command(
        ("passport",),
        "Write a run as one signed file that others can verify.",
        _AT + "passport:make",
        (
            RUN,
            PROJECT,
            Option(
                ("--to",), "to", "File to write. Default: RUN_ID.passport.zip in the current folder.", metavar="FILE"
            ),
            Option(("--key",), "key", "SSH key to sign with. Default: the first in ~/.ssh.", metavar="FILE"),
        ),
        examples=(("Sign with a key in your ssh-agent", "holdfast passport -r 12 --key ~/.ssh/id_ed25519.pub"),),
    ),
    Command(
        ("passport", "verify"),
        "Verify a passport: its contents and its signature.",
        _AT + "passport:verify",
        (
            Option(("--signer",), "signer", "Allowed signers file, as in ssh-keygen(1).", metavar="FILE"),
            Option(("--key",), "key", "Public key that the signature must belong to.", metavar="FILE"),
        ),
        (Positional("file", "The passport.", "FILE"),),
    ),
)
DIAGNOSTICS = (
    Command(
        ("experiment", "diagnostics"),
        "Write a support report without code, outputs or secrets. Its contents are shown first.",
        _AT + "diagnostics:write",
        (
            Option(("--run", "-r", "--run-id"), "run", "Include the files of this run.", metavar="RUN"),
            OLD_TARGET,
            Option(("--to",), "to", "File to write. Default: diagnostics.zip in the current folder.", metavar="FILE"),
            Option(("--with-log",), "with_log", "Include the log of the script.", kind="flag"),
            Option(("--yes", "-y"), "yes", "Do not prompt for confirmation.", kind="flag"),
            PROJECT,
        ),
        aliases=(("diagnostics",),),
    ),
)
_WEB = "holdfast.web.command:"
WEB = (
    Command(
        ("ui",),
        "Open the history in a browser: a web server for this user on this machine.",
        _WEB + "ui",
        (
            PROJECT,
            Option(("--port",), "port", "Port on the loopback. Default: the last one if it is free.", metavar="N"),
            Option(("--socket",), "socket", "Listen on a Unix socket for its owner only, not on a port.", kind="flag"),
            Option(("--read-only",), "read_only", "Refuse everything that changes or starts something.", kind="flag"),
            Option(("--terminal",), "terminal", "Offer command prompts: your own shells in the browser.", kind="flag"),
            Option(("--no-open",), "no_open", "Print a sign-in code instead of opening a browser.", kind="flag"),
        ),
        examples=(
            ("On this machine", "holdfast ui"),
            ("On another machine, shown here by the ssh command that it prints", "holdfast ui --socket"),
        ),
        description="The server ends with this command; runs continue. See docs/web.md.",
    ),
    Command(("ui", "list"), "List the web servers of this store.", _WEB + "list_servers"),
    Command(
        ("ui", "stop"),
        "Stop a web server of this store, or all of them.",
        _WEB + "stop",
        (),
        (Positional("pid", "Process id of the server. Default: all.", "PID", required=False),),
    ),
)
