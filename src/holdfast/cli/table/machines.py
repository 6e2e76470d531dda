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
_KERNEL = (
    PROJECT,
    Option(("--env",), "environment", "Python environment, as for submit.", metavar="project|active|none"),
    Option(("--python",), "python", "Interpreter of the kernel, on the target.", metavar="PATH"),
    Option(("--gpus",), "gpus", "Reserve this many GPUs while the kernel runs.", metavar="N|all"),
    Option(("--wait-for-gpu",), "wait_for_gpu", "Maximum time to wait for GPUs; 0 does not wait.", metavar="TIME"),
    Option(
        ("--client-time",),
        "client_time",
        "End the kernel when its client has been unreachable for this time. Default: 12h.",
        metavar="TIME",
    ),
    Option(
        ("--idle-time",),
        "idle",
        "End the kernel when no cell was executed for this time; 0 never does. Default: 24h.",
        metavar="TIME",
    ),
)
KERNELS = (
    Command(
        ("kernel", "install"),
        "Make a target a kernel of Jupyter: its notebooks run there.",
        _AT + "kernels:install",
        (
            _ON._replace(help="Run configuration or target. Default: all run configurations.", required=False),
            Option(("--name", "-n"), "name", "Name of the kernel. Default: PROJECT_CONFIGURATION.", metavar="NAME"),
            *_KERNEL,
        ),
        examples=(
            ("One kernel, which has a GPU while it runs", "holdfast kernel install -c gpu1 --gpus 1"),
            ("One for each run configuration", "holdfast kernel install"),
        ),
        description="A kernel is a run: in the declared environment or container, with GPUs from the queue. A broken "
        "connection does not end it. The environment there needs ipykernel. See docs/notebooks.md.",
    ),
    Command(("kernel", "list"), "List the kernels that Holdfast installed.", _AT + "kernels:list_kernels"),
    Command(
        ("kernel", "remove"),
        "Remove kernels from Jupyter.",
        _AT + "kernels:remove",
        (),
        (Positional("names", "Names of kernels.", "NAME", many=True),),
    ),
    Command(
        ("kernel", "run"),
        "Start a kernel on a target and connect it to Jupyter, which runs this command.",
        _AT + "kernels:run",
        (
            _ON,
            Option(("-f",), "file", "Connection file of Jupyter.", metavar="FILE", required=True),
            *_KERNEL,
        ),
    ),
)
MACHINES = (
    Command(("computetarget", "list"), "List the names of all targets.", _AT + "targets:list_targets", (PROJECT,)),
    Command(
        ("computetarget", "show"),
        "Show the settings of a target.",
        _AT + "targets:show_target",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "test"),
        "Check whether runs can start on a target, and show how to fix problems.",
        _AT + "machines:test",
        (NAME, PROJECT),
        (WORD,),
        examples=(("All checks, from DNS to the GPU", "holdfast computetarget test lab1"),),
        description="The exit code is 0 if a run can start there, 69 if the machine cannot be reached, "
        "76 if its host key is not the pinned one, 65 if a setting is missing.",
    ),
    Command(
        ("computetarget", "setup-script"),
        "Print a cloud-init file that makes a fresh Ubuntu machine ready for runs.",
        _AT + "machines:setup_script",
        (
            Option(("--gpu",), "gpu", "Also install NVIDIA's driver and container toolkit.", kind="flag"),
            Option(
                ("--username", "-u"),
                "username",
                "User to create there. Default: your name here, or holdfast.",
                metavar="NAME",
            ),
            Option(
                ("--key",),
                "key_file",
                "Public key for the login. Default: id_ed25519.pub, id_ecdsa.pub or id_rsa.pub in ~/.ssh.",
                metavar="FILE",
            ),
        ),
        examples=(("For a rented machine with a GPU", "holdfast computetarget setup-script --gpu > gpu1.yaml"),),
        description="Give the file to the provider as user data (custom data). It installs Python, docker and git, and "
        "creates a user with your public key. See docs/getting-a-machine.md.",
    ),
    Command(
        ("computetarget", "detach"),
        "Remove a target's files; --purge also removes all Holdfast files on the machine.",
        _AT + "targets:detach",
        (
            NAME._replace(flags=(*NAME.flags, "-c")),
            PROJECT,
            Option(
                ("--purge",),
                "purge",
                "Remove your runs and key on the machine, and shared data if no other client uses it.",
                kind="flag",
            ),
            Option(("--yes", "-y"), "yes", "Do not prompt about outputs that exist only there.", kind="flag"),
        ),
        (WORD,),
        aliases=(("detach",),),
    ),
    Command(
        ("trust",),
        "Confirm on this machine what a target or a project may do.",
        _AT + "trust:trust",
        (
            NAME._replace(help="The same as WHAT."),
            PROJECT,
            Option(("--list",), "list", "Show what you have confirmed.", kind="flag"),
            Option(("--forget",), "forget", "Withdraw the confirmation of WHAT.", kind="flag"),
        ),
        (
            Positional(
                "word", "A target, a run configuration, or the folder of a project for all of it.", "WHAT", False
            ),
        ),
        aliases=(("computetarget", "trust"),),
        examples=(
            ("A target that came with a clone", "holdfast trust gpu1"),
            ("Everything in this project at present", "holdfast trust ."),
            ("What was confirmed, and for which project", "holdfast trust --list"),
        ),
        description="Values are confirmed as they are now; a changed value must be confirmed again. A folder that "
        "belongs to another user may be used after this. docs/trust.md lists what needs confirmation.",
    ),
    Command(
        ("computetarget", "start"),
        "Start a machine with its startCommand and wait until it responds.",
        _AT + "power:start",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "stop"),
        "Stop a machine with its stopCommand.",
        _AT + "power:stop",
        (NAME, PROJECT),
        (WORD,),
    ),
    Command(
        ("computetarget", "attach"),
        "Add a machine as a target.",
        _AT + "attach:attach",
        ATTACH,
        (Positional("kind", "remotedocker, remote or cluster; or USER@HOST for all your projects.", required=False),),
        aliases=(("computecontext", "attach"), ("attach",)),
        examples=(
            ("With your SSH key or agent, for all projects", "holdfast attach ada@gpu1.example.org"),
            ("For this project", "holdfast attach remote --name lab1 --address gpu1 --username ada"),
        ),
        description="The host key is shown and pinned. A password is used once, to install a key for Holdfast.",
    ),
    Command(
        ("exec",),
        "Run a command next to a run: on its machine, in its folder, with its variables.",
        _AT + "inside:execute",
        (RUN._replace(leading=True, default=None), PROJECT),
        rest=Positional("command", "The command and its arguments, passed on unchanged.", "COMMAND [ARGUMENTS]"),
        examples=(
            ("Show its GPUs", "holdfast exec nvidia-smi"),
            ("List the folder of run 12", "holdfast exec 12 ls"),
            ("Run a local script there", "holdfast exec -r last -- python - < look.py"),
        ),
        description="The exit code is that of the command, which ends when this command does. Values of -e, "
        "--env-file and --secret are not stored and therefore not set.",
    ),
    Command(
        ("ssh",),
        "Open a shell on the machine of a run or on a target.",
        _AT + "inside:ssh",
        (
            RUN._replace(default=None),
            Option(
                ("--run-configuration", "-c", "--runconfig"),
                "config",
                "Use this target instead of a run.",
                metavar="NAME",
            ),
            PROJECT,
        ),
        description="Default: the machine of the last run. The shell of a run is in its folder.",
    ),
    Command(
        ("forward",),
        "Forward a port of a run's machine to 127.0.0.1; ends with Ctrl-C.",
        _AT + "inside:forward",
        (RUN, PROJECT),
        (Positional("ports", "Remote port, and the local port if it differs.", "PORT[:LOCAL]", many=True),),
        examples=(("TensorBoard started by the run", "holdfast forward -r last 6006"),),
    ),
    Command(
        ("gpu",),
        "Show the GPUs of a target: utilization, memory and processes.",
        _AT + "gpu:gpu",
        (
            _ON._replace(help="Run configuration or target. Default: this machine.", required=False),
            PROJECT,
            Option(
                ("--watch", "-w"), "watch", "Refresh every second until Ctrl-C; the default at a terminal.", kind="flag"
            ),
        ),
        examples=(
            ("The GPUs of this machine", "holdfast gpu"),
            ("Live, with a chart of each GPU", "holdfast gpu -c lab1"),
            ("Free memory of each GPU, in bytes", 'holdfast gpu -c lab1 --query "gpus[].memory_free"'),
        ),
        description="Holdfast runs are shown by name, other processes by user and PID. If the machine has no NVIDIA "
        "GPU, or it cannot be queried, a message is printed and the exit code is 0.",
    ),
    Command(
        ("experiment", "clean"),
        "Free disk space on a target: unused images, environments, data sets, caches and old run folders.",
        _AT + "clean:clean",
        (
            _ON,
            PROJECT,
            Option(("--dry-run",), "dry_run", "Only show what would be removed.", kind="flag"),
            Option(("--yes", "-y"), "yes", "Do not prompt for confirmation.", kind="flag"),
        ),
        aliases=(("clean",),),
        description="Everything is listed with its size first. Data in use, outputs that exist only there, "
        "and data of other clients are kept.",
    ),
    Command(
        ("data", "list"),
        "List the data sets that a target keeps: hash, size, last use, and whether they are pinned.",
        _AT + "data:list_sets",
        (_ON, PROJECT),
        examples=(("What could be removed", "holdfast data list -c gpu1"),),
    ),
    Command(
        ("data", "pin"),
        "Keep a data set on a target: clean does not remove it.",
        _AT + "data:pin",
        (_ON, PROJECT, Option(("--off",), "off", "Let clean remove it again.", kind="flag")),
        (Positional("set", "Its name, or the first digits of its hash.", "NAME|HASH"),),
    ),
    Command(
        ("data", "remove"),
        "Remove a data set from a target; the next run that needs it sends it again.",
        _AT + "data:remove",
        (_ON, PROJECT),
        (Positional("set", "Its name, or the first digits of its hash.", "NAME|HASH"),),
    ),
    Command(
        ("data", "verify"),
        "Read the data sets on a target and compare them with their hashes. What is damaged is removed; the next "
        "submit sends it again.",
        _AT + "data:verify",
        (_ON, PROJECT),
        (Positional("set", "A name, or the first digits of a hash. Default: all.", "NAME|HASH", required=False),),
    ),
    Command(
        ("image", "list"),
        "List the images of a target's container engine and mark those that Holdfast pulled or built.",
        _AT + "images:list_images",
        (_ON, PROJECT),
    ),
    Command(
        ("image", "import"),
        "Copy an image to a target without a registry; prints its name there.",
        _AT + "images:import_image",
        (_ON, PROJECT),
        (
            Positional(
                "source", "An archive of docker save or podman save, - for stdin, or a local image.", "FILE|NAME"
            ),
        ),
        examples=(
            ("A local image", "holdfast image import -c lab1 python:3.12-slim"),
            ("An archive", "holdfast image import -c lab1 image.tar"),
        ),
    ),
    Command(
        ("image", "export"),
        "Save an image of a target to a local file.",
        _AT + "images:export_image",
        (_ON, PROJECT, Option(("--force",), "force", "Overwrite an existing file.", kind="flag")),
        (Positional("name", "The image.", "NAME"), Positional("file", "The file; - for stdout.", "FILE")),
    ),
)
# The original's commands about accounts and services, which old tools call.
_GROUP = Option(("--resource-group", "-g"), "resource_group", "Resource group; any name.", metavar="NAME")
_NAMED = Option(("--name", "-n"), "name", "Name.", metavar="NAME", required=True)
_ACCOUNT = Option(("--account", "-a"), "account", "Experimentation account; any name.", metavar="NAME")
_LOCATION = Option(("--location", "-l"), "location", "Region; any name.", metavar="NAME")
_IGNORED = Option(("--storage", "--owner"), "ignored", "Accepted and ignored.", metavar="TEXT", hidden=True)


def _not_offered(word: str, summary: str) -> Command:
    anything = Positional("arguments", "Ignored.", "ARGUMENTS", required=False)
    return Command((word,), summary, _AT + "accounts:not_offered", rest=anything, hidden=True)


WORKBENCH = (
    Command(
        ("account", "experimentation", "list"),
        "List the experimentation accounts: that of the project, or local.",
        _AT + "accounts:list_accounts",
        (_GROUP, PROJECT),
        hidden=True,
    ),
    Command(
        ("account", "experimentation", "create"),
        "Answer as if an experimentation account was created; Holdfast needs none.",
        _AT + "accounts:create_account",
        (_NAMED, _GROUP, _LOCATION, _IGNORED),
        hidden=True,
    ),
    Command(
        ("workspace", "list"),
        "List the workspaces: that of the project, or default.",
        _AT + "accounts:list_workspaces",
        (_ACCOUNT, _GROUP, PROJECT),
        hidden=True,
    ),
    Command(
        ("workspace", "create"),
        "Answer as if a workspace was created; Holdfast needs none.",
        _AT + "accounts:create_workspace",
        (_NAMED, _ACCOUNT, _GROUP, _LOCATION, _IGNORED),
        hidden=True,
    ),
    _not_offered("service", "Not offered: Holdfast does not deploy models."),
    _not_offered("model", "Not offered: Holdfast does not register models with a service."),
)
NOTEBOOKS = (
    Command(
        ("notebook", "start"),
        "Start Jupyter in the project's folder, with the Python of local runs.",
        _AT + "notebooks:start",
        (PROJECT,),
        rest=Positional("arguments", "Arguments for Jupyter, passed on unchanged.", "ARGUMENTS", required=False),
        examples=(("On another port", "holdfast notebook start -- --port 9000"),),
        description="The folder is served at port 8888 or the next free one; the address is printed. It ends with "
        "Ctrl-C. Jupyter must be installed in the project's environment or be on the PATH.",
    ),
)
