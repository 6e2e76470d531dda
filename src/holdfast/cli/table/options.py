"""Command table: options that several commands share."""

from __future__ import annotations

from holdfast.cli.parse import Option, Positional

RUN = Option(
    ("--run", "-r", "--run-id"),
    "run",
    "The run: last, a number, a run id or a unique prefix of one, or its name.",
    metavar="RUN",
    default="last",
    loose=True,
)
OLD_TARGET = Option(
    ("--target", "-t"),
    "target",
    "Accepted for compatibility and ignored.",
    metavar="NAME",
    hidden=True,
)
PROJECT = Option(
    ("--project", "-p", "--path"), "project", "Folder of the project. Default: the current one.", metavar="PATH"
)
CONFIGURATION = (
    Option(
        ("--run-configuration", "-c", "--runconfig"), "config", "Run configuration. Default: local.", metavar="NAME"
    ),
    Option(("--target", "-t"), "target", "Use this target instead of the configured one.", metavar="NAME"),
    PROJECT,
)
STORE_LARGE = Option(("--yes", "-y"), "yes", "Do not prompt before storing more than 1 GB of new files.", kind="flag")
NAME = Option(("--name", "-n"), "name", "Name.", metavar="NAME")
WORD = Positional("word", "Name.", "NAME", required=False)
ATTACH = (
    NAME,
    Option(("--address", "-a"), "address", "Address of the machine.", metavar="HOST"),
    Option(("--username", "-u"), "username", "User name on the machine.", metavar="USER"),
    Option(
        ("--password", "-w"),
        "password",
        "Password; - reads it from stdin. If omitted, it is prompted for.",
        metavar="PASSWORD",
    ),
    Option(("--use-azureml-ssh-key", "-k"), "own_key", "Create and use a key for this target.", kind="flag"),
    Option(("--private-key-file",), "key_file", "Use this private key.", metavar="FILE"),
    Option(("--private-key-passphrase",), "passphrase", "Passphrase of that key.", metavar="TEXT"),
    Option(("--type", "-type"), "type", "remotedocker or cluster; the syntax of the first release.", metavar="KIND"),
    Option(("--cluster",), "cluster", "The same as --type cluster.", kind="flag"),
    Option(("--port",), "port", "SSH port. Default: as in your ssh configuration, else 22.", metavar="N"),
    Option(("--root",), "root", "Folder for all Holdfast data on the machine. Default: ~/.holdfast.", metavar="DIR"),
    Option(("--accept-host-key",), "accept_host_key", "Expected host key fingerprint, SHA256:...", metavar="KEY"),
    Option(("--user",), "user", "Make the target available in all your projects.", kind="flag"),
    Option(("--project", "-p"), "project", "Folder of the project. Default: the current one.", metavar="PATH"),
)

SUBMIT = (
    Option(
        ("--run-configuration", "-c", "--runconfig"),
        "config",
        "Run configuration or target to run on. Default: local.",
        metavar="NAME",
    ),
    Option(("--target", "-t"), "target", "Use this target instead of the configured one.", metavar="NAME"),
    PROJECT,
    Option(("--wait",), "wait", "Stream the log until the run ends. This is the default.", kind="flag", trailing=True),
    Option(("--no-wait", "-d", "--detach"), "no_wait", "Print the run id and return; the run continues.", kind="flag"),
    Option(
        ("--dry-run",),
        "dry_run",
        "Print the plan and do nothing. Fails if a submit would be refused.",
        kind="flag",
    ),
    Option(("--preflight",), "preflight", "Only check whether the run could start; send nothing.", kind="flag"),
    Option(
        ("--env",),
        "environment",
        "Python environment: project builds the declared one, active is that of this shell, none is the target's own "
        "Python. Any other value is a variable, as with -e.",
        kind="repeat",
        metavar="project|active|none",
    ),
    Option(
        ("--python",),
        "python",
        "Run the script with this interpreter, on the target; with --env project, build its environment for it.",
        metavar="PATH",
    ),
    Option(
        ("-e",),
        "env",
        "Set the environment variable NAME; without VALUE, pass it on from this shell.",
        kind="repeat",
        metavar="NAME[=VALUE]",
    ),
    Option(("--env-file",), "env_file", "A file of NAME=VALUE lines for the script.", kind="repeat", metavar="FILE"),
    Option(
        ("--secret",),
        "secret",
        "Secret variable; prompted for if unset. Its value is not stored.",
        kind="repeat",
        metavar="NAME",
    ),
    Option(
        ("--link",),
        "link",
        "Link this folder into the run's working directory instead of copying it.",
        kind="repeat",
        metavar="PATH",
    ),
    Option(
        ("--data",),
        "data",
        "Give the run this folder or file as data: sent once per target, kept by content, found at data/NAME.",
        kind="repeat",
        metavar="NAME=PATH",
    ),
    Option(("--timeout",), "timeout", "Cancel the run after this time, for example 4h or 90m.", metavar="TIME"),
    Option(("--grace",), "grace", "Time between SIGTERM and SIGKILL. Default: 30s.", metavar="TIME"),
    Option(("--notify",), "notify", "Command to run, or URL to post to, when the run ends.", metavar="COMMAND|URL"),
    Option(
        ("--retries",),
        "retries",
        "Restart the run up to N times if its machine is lost or its script is killed while this command waits.",
        metavar="N",
    ),
    Option(("--gpus",), "gpus", "Reserve this many GPUs; wait until they are free.", metavar="N|all"),
    Option(("--require-gpu",), "require_gpu", "Fail if no GPU is used within gpuGrace (default 10m).", kind="flag"),
    Option(("--wait-for-gpu",), "wait_for_gpu", "Maximum time to wait for GPUs; 0 does not wait.", metavar="TIME"),
    Option(("--name",), "name", "Name of the run: shown in lists, and accepted by -r.", metavar="NAME"),
    Option(("--tag",), "tags", "Tag the run, as holdfast tag does.", kind="repeat", metavar="TAG[=VALUE]"),
    Option(("--scalars",), "scalars", "Record numbers that the script prints, as in loss: 0.23.", kind="flag"),
    Option(
        ("--keep-limit",),
        "keep_limit",
        "Size of files outside outputs/ that are kept as results. Default: 2GB.",
        metavar="SIZE",
    ),
    Option(
        ("--no-capture",),
        "no_capture",
        "Do not record what the script logs with MLflow, wandb, TensorBoard or Lightning.",
        kind="flag",
    ),
    Option(("--keep-work",), "keep_work", "Keep the run's working directory after it completes.", kind="flag"),
    STORE_LARGE,
    Option(
        ("--skip-unreadable",),
        "skip_unreadable",
        "Skip unreadable files instead of refusing.",
        kind="flag",
    ),
)
