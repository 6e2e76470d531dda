"""Command table: options that several commands share."""

from __future__ import annotations

from holdfast.cli.parse import Option, Positional

RUN = Option(
    ("--run", "-r", "--run-id"),
    "run",
    "Which run: last, a number, a run id, or any unique beginning of one.",
    metavar="RUN",
    default="last",
)
OLD_TARGET = Option(
    ("--target", "-t"),
    "target",
    "Accepted for old command lines; the run knows its target.",
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
    Option(("--target", "-t"), "target", "Another target than the one it names.", metavar="NAME"),
    PROJECT,
)
STORE_LARGE = Option(("--yes", "-y"), "yes", "Do not ask before storing more than 1 GB of new files.", kind="flag")
NAME = Option(("--name", "-n"), "name", "Its name.", metavar="NAME")
WORD = Positional("word", "Its name.", "NAME", required=False)
ATTACH = (
    NAME,
    Option(("--address", "-a"), "address", "Address of the machine.", metavar="HOST"),
    Option(("--username", "-u"), "username", "User name there.", metavar="USER"),
    Option(
        ("--password", "-w"),
        "password",
        "Password there; - reads it from stdin. Better left out: you are asked.",
        metavar="PASSWORD",
    ),
    Option(("--use-azureml-ssh-key", "-k"), "own_key", "Use a key made for this target.", kind="flag"),
    Option(("--private-key-file",), "key_file", "Use this private key.", metavar="FILE"),
    Option(("--private-key-passphrase",), "passphrase", "Passphrase of that key.", metavar="TEXT"),
    Option(("--type", "-type"), "type", "remotedocker or cluster, as the first release wrote it.", metavar="KIND"),
    Option(("--cluster",), "cluster", "The same as --type cluster.", kind="flag"),
    Option(
        ("--port",), "port", "Port of its SSH server. Default: what your ssh configuration says, else 22.", metavar="N"
    ),
    Option(("--root",), "root", "Folder on the machine to keep everything in. Default: ~/.holdfast.", metavar="DIR"),
    Option(
        ("--accept-host-key",), "accept_host_key", "The key that the machine must show, as SHA256:...", metavar="KEY"
    ),
    Option(("--user",), "user", "For all your projects instead of this one.", kind="flag"),
    Option(("--project", "-p"), "project", "Folder of the project. Default: the current one.", metavar="PATH"),
)

SUBMIT = (
    Option(
        ("--run-configuration", "-c", "--runconfig"),
        "config",
        "Run configuration or target to run on. Default: local.",
        metavar="NAME",
    ),
    Option(("--target", "-t"), "target", "Another target than the one the run configuration names.", metavar="NAME"),
    PROJECT,
    Option(("--wait",), "wait", "Stream the log until the run ends. This is the default.", kind="flag", trailing=True),
    Option(("--no-wait", "-d", "--detach"), "no_wait", "Print the run id and return; the run goes on.", kind="flag"),
    Option(("--dry-run",), "dry_run", "Print the plan and touch nothing.", kind="flag"),
    Option(("--preflight",), "preflight", "Only look whether it could run there; send nothing.", kind="flag"),
    Option(
        ("-e", "--env"),
        "env",
        "Set NAME=VALUE for the script, or hand on NAME from this shell.",
        kind="repeat",
        metavar="NAME[=VALUE]",
    ),
    Option(("--env-file",), "env_file", "A file of NAME=VALUE lines for the script.", kind="repeat", metavar="FILE"),
    Option(
        ("--secret",),
        "secret",
        "Hand on NAME from this shell, or ask for it; its value is kept nowhere.",
        kind="repeat",
        metavar="NAME",
    ),
    Option(
        ("--link",),
        "link",
        "Show this folder in the run's copy by a link instead of copying it.",
        kind="repeat",
        metavar="PATH",
    ),
    Option(("--timeout",), "timeout", "End the run after this time, for example 4h or 90m.", metavar="TIME"),
    Option(("--grace",), "grace", "How long a run may take to end by itself when asked. Default: 30s.", metavar="TIME"),
    Option(("--notify",), "notify", "Command to run, or URL to post to, when the run ends.", metavar="COMMAND|URL"),
    Option(
        ("--retries",),
        "retries",
        "While this command waits: start the run again if its machine is lost, up to N times.",
        metavar="N",
    ),
    Option(("--gpus",), "gpus", "Take this many GPUs, and wait until they are free.", metavar="N|all"),
    Option(("--require-gpu",), "require_gpu", "Fail if no GPU is used within gpuGrace, 10m.", kind="flag"),
    Option(("--wait-for-gpu",), "wait_for_gpu", "How long to wait for them at most; 0: not at all.", metavar="TIME"),
    Option(("--keep-work",), "keep_work", "Keep the run's folder even if it completes.", kind="flag"),
    STORE_LARGE,
    Option(
        ("--skip-unreadable",),
        "skip_unreadable",
        "Leave files out that cannot be read, instead of refusing.",
        kind="flag",
    ),
)
