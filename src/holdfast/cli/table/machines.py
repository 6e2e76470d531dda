"""Command table: machines, ``exec``, ``ssh`` and ``forward``."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import ATTACH, NAME, PROJECT, RUN, WORD

_AT = "holdfast.cli.commands."
_ON = Option(
    ("--run-configuration", "-c", "--runconfig"),
    "config",
    "Run configuration or target.",
    metavar="NAME",
    required=True,
)
MACHINES = (
    Command(("computetarget", "list"), "List the names of all targets.", _AT + "targets:list_targets", (PROJECT,)),
    Command(
        ("computetarget", "show"),
        "Show a target as it is understood.",
        _AT + "targets:show_target",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "test"),
        "Look at a target the way a run will meet it, and say how to mend what is wrong.",
        _AT + "machines:test",
        (NAME, PROJECT),
        (WORD,),
        examples=(("All that can go wrong between here and there", "holdfast computetarget test lab1"),),
        description="The exit code is 0 if a run can start there, 69 if the machine cannot be reached, "
        "76 if it shows another key than the pinned one, 65 if something has to be set.",
    ),
    Command(
        ("computetarget", "detach"),
        "Remove a target's files; with --purge also all that we left on the machine.",
        _AT + "targets:detach",
        (
            NAME,
            PROJECT,
            Option(
                ("--purge",),
                "purge",
                "Remove your runs and your key there, and what is shared if nobody else uses it.",
                kind="flag",
            ),
            Option(("--yes", "-y"), "yes", "Do not ask about outputs that are only there.", kind="flag"),
        ),
        (WORD,),
    ),
    Command(
        ("trust",),
        "Confirm on this machine what a target or a whole project asks for.",
        _AT + "trust:trust",
        (
            NAME._replace(help="The same as WHAT."),
            PROJECT,
            Option(("--list",), "list", "Show what you have confirmed.", kind="flag"),
            Option(("--forget",), "forget", "Take back what was confirmed for WHAT.", kind="flag"),
        ),
        (
            Positional(
                "word", "A target or run configuration; or the folder of a project, for all of it.", "WHAT", False
            ),
        ),
        aliases=(("computetarget", "trust"),),
        examples=(
            ("A target that came with a clone", "holdfast trust gpu1"),
            ("Everything in this project, as it is now", "holdfast trust ."),
            ("What was confirmed, and for which project", "holdfast trust --list"),
        ),
        description="Values are confirmed as they are now; one that changes is asked about again. A folder that "
        "belongs to another user may be used after this. The table of what needs it is in docs/trust.md.",
    ),
    Command(
        ("computetarget", "start"),
        "Switch a target on by its startCommand and wait until it answers.",
        _AT + "power:start",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "stop"),
        "Switch a target off by its stopCommand.",
        _AT + "power:stop",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "attach"),
        "Name a machine once, to run on it from then on.",
        _AT + "attach:attach",
        ATTACH,
        (Positional("kind", "remotedocker, remote or cluster; or USER@HOST for all your projects.", required=False),),
        aliases=(("computecontext", "attach"), ("attach",)),
        examples=(
            ("By a key or agent of yours, for all projects", "holdfast attach ada@gpu1.example.org"),
            ("For this project", "holdfast computetarget attach remote --name lab1 --address gpu1 --username ada"),
        ),
        description="The machine's key is shown and pinned. A password is used once, to install a key of our own.",
        essential=True,
    ),
    Command(
        ("exec",),
        "Run a command beside a run: on its machine, in its folder, with its variables.",
        _AT + "inside:execute",
        (RUN, PROJECT),
        rest=Positional("command", "The command and its arguments, handed on untouched.", "COMMAND [ARGUMENTS]"),
        examples=(
            ("What its GPUs do", "holdfast exec -r last -- nvidia-smi"),
            ("Feed it from here", "holdfast exec -r last -- python - < look.py"),
        ),
        description="The exit code is the command's own. It ends when this command does. Values of -e, --env-file and "
        "--secret are kept nowhere, so it does not have them.",
    ),
    Command(
        ("ssh",),
        "Open a shell on the machine of a run, in its folder, or on a target.",
        _AT + "inside:ssh",
        (
            RUN._replace(default=None),
            Option(("--run-configuration", "-c", "--runconfig"), "config", "This target instead.", metavar="NAME"),
            PROJECT,
        ),
        description="Without -r and -c it is the last run's.",
    ),
    Command(
        ("forward",),
        "Make a port of a run's machine reachable here, on 127.0.0.1, until Ctrl-C.",
        _AT + "inside:forward",
        (RUN, PROJECT),
        (
            Positional(
                "ports", "A port there, and the one to use here if it shall be another.", "PORT[:LOCAL]", many=True
            ),
        ),
        examples=(("TensorBoard that the run started", "holdfast forward -r last 6006"),),
    ),
    Command(
        ("gpu",),
        "Show the GPUs of a target: how busy, how full, and who holds them.",
        _AT + "gpu:gpu",
        (
            _ON,
            PROJECT,
            Option(("--watch", "-w"), "watch", "Look every second, until Ctrl-C; at a terminal it does.", kind="flag"),
        ),
        examples=(
            ("Live, with a chart of each GPU", "holdfast gpu -c lab1"),
            ("How much of each is free, in bytes", 'holdfast gpu -c lab1 --query "gpus[].memory_free"'),
        ),
        description="Runs of ours are named; the processes of others by user and pid. That a machine has no NVIDIA "
        "GPU, or that nobody can look there, is said in words, and the exit code is 0.",
    ),
    Command(
        ("experiment", "clean"),
        "Give room back on a target: images, environments, caches and old run folders of ours there.",
        _AT + "clean:clean",
        (
            _ON,
            PROJECT,
            Option(("--dry-run",), "dry_run", "Only say what could go.", kind="flag"),
            Option(("--yes", "-y"), "yes", "Do not ask.", kind="flag"),
        ),
        aliases=(("clean",),),
        description="Everything is shown with its size first. What is in use, what is only there, and what others "
        "brought stays.",
    ),
    Command(
        ("image", "list"),
        "List the images of a target's container engine, and which of them Holdfast fetched or built.",
        _AT + "images:list_images",
        (_ON, PROJECT),
    ),
    Command(
        ("image", "import"),
        "Bring an image to a target over the connection to it, without a registry; prints its name there.",
        _AT + "images:import_image",
        (_ON, PROJECT),
        (
            Positional(
                "source", "An archive of docker save or podman save, - for stdin, or an image here.", "FILE|NAME"
            ),
        ),
        examples=(
            ("An image of the engine here", "holdfast image import -c lab1 python:3.12-slim"),
            ("An archive", "holdfast image import -c lab1 image.tar"),
        ),
    ),
    Command(
        ("image", "export"),
        "Write an image of a target into a file here.",
        _AT + "images:export_image",
        (_ON, PROJECT, Option(("--force",), "force", "Replace the file if it is there.", kind="flag")),
        (Positional("name", "The image.", "NAME"), Positional("file", "The file; - for stdout.", "FILE")),
    ),
)
