"""All commands, as data. Commands have the names of the original; a command about runs also has a name of one word."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.comparison import COMPARISONS, REVIVAL
from holdfast.cli.table.exchange import ASSETS, DIAGNOSTICS, EXCHANGE, LABELS, PASSPORTS, TEAM
from holdfast.cli.table.history import HISTORY
from holdfast.cli.table.machines import KERNELS, MACHINES, NOTEBOOKS, WORKBENCH
from holdfast.cli.table.options import CONFIGURATION, NAME, OLD_TARGET, PROJECT, RUN, STORE_LARGE, SUBMIT, WORD
from holdfast.cli.table.web import WEB

_AT = "holdfast.cli.commands."
COMMANDS = (
    Command(
        ("experiment", "submit"),
        "Run a script on a target; stream its log and record it in the history.",
        _AT + "submit:submit",
        SUBMIT,
        rest=Positional(
            "script",
            "A Python script, notebook, shell script or program of the project; -m MODULE; or -- and a command of the "
            "run's environment. Its arguments are passed on unchanged.",
            "SCRIPT [ARGUMENTS]",
            required=False,
            starts=("-m",),
        ),
        aliases=(("submit",), ("execute", "start")),
        examples=(
            ("Run on this machine and follow the log", "holdfast submit -c local train.py --lr 0.1"),
            ("Run a module", "holdfast submit -c local -m pkg.train --lr 0.1"),
            (
                "Run a command of the run's environment",
                "holdfast submit -c local -- torchrun --nproc-per-node 2 train.py",
            ),
            ("Run a notebook; the executed copy is in outputs", "holdfast submit -c local --name first notebook.ipynb"),
            ("Start in the background", "holdfast submit -c local --no-wait train.py"),
            ("Print the plan only", "holdfast submit -c local --dry-run train.py"),
        ),
        description="Options go before the script. Ctrl-C stops the log stream, not the run. "
        "The exit code is that of the script.",
    ),
    Command(
        ("experiment", "prepare"),
        "Build the environment of a target before the first run.",
        _AT + "environments:prepare",
        CONFIGURATION,
        aliases=(("prepare",),),
    ),
    Command(("env", "list"), "List the environments in the store.", _AT + "environments:list_environments"),
    Command(
        ("env", "show"),
        "Show the declared environment, its file, the solved packages and whether it is built.",
        _AT + "environments:show_declared",
        CONFIGURATION,
    ),
    Command(
        ("env", "lock"),
        "Write the exact package versions to aml_config/NAME.lock.",
        _AT + "environments:lock",
        CONFIGURATION,
    ),
    Command(
        ("env", "verify"),
        "Check the files of an environment for changes.",
        _AT + "environments:verify",
        CONFIGURATION,
    ),
    Command(
        ("env", "add"),
        "Add packages to the file that declares the environment.",
        _AT + "environments:add",
        CONFIGURATION,
        (Positional("packages", "Packages, in pip's syntax.", "PACKAGE", many=True),),
    ),
    Command(
        ("env", "fix"),
        "Replace outdated package names and addresses in the file that declares the environment.",
        _AT + "environments:fix",
        (*CONFIGURATION, Option(("--gpu",), "gpu", "Also choose builds for the target's GPU.", kind="flag")),
    ),
    Command(
        ("env", "prune"),
        "Remove unused environments; keep the newest ones and those in use.",
        _AT + "environments:prune",
        (
            Option(
                ("--keep",),
                "keep",
                "Number of most recently used environments to keep. Default: 5.",
                metavar="N",
                default="5",
            ),
            Option(
                ("--max-size",),
                "max_size",
                "Also remove the oldest until the total is below this size.",
                metavar="SIZE",
            ),
            Option(("--dry-run",), "dry_run", "Only show what would be removed.", kind="flag"),
        ),
    ),
    Command(
        ("experiment", "status"),
        "Show the status of a run.",
        _AT + "runs:status",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("status",),),
    ),
    Command(
        ("experiment", "cancel"),
        "Cancel a run: SIGTERM to all its processes, SIGKILL after its grace period.",
        _AT + "runs:cancel",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("cancel",),),
    ),
    Command(
        ("experiment", "retry"),
        "Restart a lost run as a new attempt.",
        _AT + "runs:retry",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("retry",),),
    ),
    Command(
        ("experiment", "return"),
        "Copy a run's outputs and other results into the project.",
        _AT + "runs:return_outputs",
        (
            RUN,
            OLD_TARGET,
            PROJECT,
            Option(("--overwrite",), "overwrite", "Overwrite files that differ.", kind="flag"),
        ),
        aliases=(("return",),),
    ),
    Command(
        ("mcp",),
        "Start an MCP server for AI agents: list, compare, submit, logs and cancel.",
        _AT + "agents:mcp",
        (
            PROJECT,
            Option(("--skill",), "skill", "Print the skill file for AI agents instead.", kind="flag"),
        ),
        examples=(
            ("Allow four GPU-hours a day", "holdfast config agentGpuHours 4"),
            ("The command to enter in an MCP client", "holdfast mcp --project /home/ada/digits"),
        ),
        description="Model Context Protocol on stdin and stdout. GPUs can be used only if agentGpuHours is set.",
    ),
    *WEB,
    *HISTORY,
    Command(
        ("history", "info"),
        "Show the details of a run, or one of its artifacts.",
        _AT + "history:info",
        (
            RUN,
            PROJECT,
            Option(
                ("--artifact", "-a", "--artifacts"),
                "artifact",
                "Print this artifact, for example driver_log.",
                metavar="NAME",
            ),
            Option(
                ("--gpu-chart",), "gpu_chart", "Write a chart of its GPU use to this .svg or .png file.", metavar="FILE"
            ),
            Option(("--packages",), "packages", "List the packages that it ran with.", kind="flag"),
        ),
        aliases=(("info",),),
        paged=True,
    ),
    Command(("history", "last"), "Show the most recent run.", _AT + "history:last", (PROJECT,), aliases=(("last",),)),
    Command(
        ("history", "download"),
        "Copy a run's artifacts, or one of them, into a folder.",
        _AT + "history:download",
        (
            RUN,
            PROJECT,
            Option(("--artifact", "-a"), "artifact", "Only this artifact.", metavar="NAME"),
            Option(
                ("-d", "--directory"),
                "directory",
                "Destination folder. Default: the current one.",
                metavar="DIR",
                default=".",
            ),
            Option(("--overwrite",), "overwrite", "Overwrite existing files.", kind="flag"),
        ),
        aliases=(("download",),),
    ),
    *TEAM,
    Command(
        ("history", "delete"),
        "Delete runs with their logs, metrics and outputs; they are kept in the trash for some time.",
        _AT + "history:delete",
        (
            PROJECT,
            Option(
                ("--run", "-r", "--run-id"),
                "runs",
                "A run to delete.",
                kind="repeat",
                metavar="RUN",
                loose=True,
            ),
            Option(("--yes", "-y"), "yes", "Do not prompt for confirmation.", kind="flag"),
            Option(("--now",), "now", "Delete permanently instead of moving to the trash.", kind="flag"),
        ),
        aliases=(("delete",),),
    ),
    *COMPARISONS,
    *LABELS,
    *ASSETS,
    *EXCHANGE,
    Command(
        ("logs",),
        "Print a run's log; -f follows it until the run ends.",
        _AT + "runs:logs",
        (
            RUN,
            PROJECT,
            Option(("--follow", "-f"), "follow", "Follow the log until the run ends.", kind="flag"),
            Option(("--tail", "-n"), "tail", "Only the last N lines.", metavar="N"),
            Option(("--attempt",), "attempt", "Of this attempt of a retried run. Default: the last.", metavar="N"),
        ),
        paged=True,
    ),
    Command(
        ("project", "create"),
        "Create a project folder from a template.",
        _AT + "project:create",
        (
            Option(("--name", "-n"), "name", "Name of the project and of its folder.", metavar="NAME", required=True),
            Option(("--path",), "path", "Parent folder. Default: the current one.", metavar="DIR", default="."),
            Option(
                ("--template",),
                "template",
                "A template (see project sample list) or the path of a folder.",
                metavar="NAME",
                default="blank",
            ),
            Option(
                ("--template-url", "-u"),
                "template_url",
                "Git repository to use as the template instead; its history is left out.",
                metavar="URL",
            ),
            Option(("--workspace", "-w"), "workspace", hidden=True),
            Option(("--account", "-a"), "account", hidden=True),
            Option(("--resource-group", "-g"), "resource_group", hidden=True),
            Option(("--location", "-l"), "location", hidden=True),
        ),
    ),
    Command(
        ("project", "restore"),
        "Restore a run's code; the present files are saved first.",
        _AT + "restore:restore",
        (
            RUN,
            PROJECT,
            Option(("--to",), "to", "Restore into this new folder instead of the project.", metavar="DIR"),
            Option(("--saved",), "saved", "Restore a state that an earlier restore saved.", metavar="NAME"),
            Option(("--results",), "results", "Copy the run's outputs and other results too.", kind="flag"),
            STORE_LARGE,
        ),
        aliases=(("restore",),),
    ),
    Command(("project", "sample", "list"), "List the templates of project create.", _AT + "project:list_samples"),
    Command(
        ("diff",),
        "Compare the code of two runs, or of a run and the project.",
        _AT + "restore:diff",
        (
            Option(
                ("--run", "-r", "--run-id"),
                "runs",
                "A run; give it twice to compare two. Default: last.",
                kind="repeat",
                metavar="RUN",
                loose=True,
            ),
            PROJECT,
            STORE_LARGE,
        ),
        paged=True,
    ),
    *REVIVAL,
    *MACHINES,
    *KERNELS,
    *NOTEBOOKS,
    *WORKBENCH,
    Command(
        ("runconfiguration", "list"),
        "List the names of all run configurations.",
        _AT + "targets:list_configurations",
        (PROJECT,),
        aliases=(("runconfigurations", "list"),),
    ),
    Command(
        ("runconfiguration", "create"),
        "Create a run configuration for a target.",
        _AT + "targets:create_configuration",
        (NAME, Option(("--target", "-t"), "target", "The target. Default: local.", metavar="NAME"), PROJECT),
        (WORD,),
        aliases=(("runconfigurations", "create"),),
    ),
    Command(
        ("runconfiguration", "delete"),
        "Remove a run configuration.",
        _AT + "targets:delete_configuration",
        (NAME, PROJECT),
        (WORD,),
        aliases=(("runconfigurations", "delete"),),
    ),
    Command(
        ("shell",),
        "Open a shell in the project in which az ml runs Holdfast.",
        _AT + "shell:shell",
        (PROJECT, Option(("--shell",), "shell", "Which shell to start. Default: yours.", metavar="NAME")),
        rest=Positional("command", "A command to run instead of an interactive shell.", "COMMAND", required=False),
        examples=(("Run an old sweep", "holdfast shell python run.py"),),
    ),
    *PASSPORTS,
    *DIAGNOSTICS,
    Command(("du",), "Show disk usage of the store.", _AT + "store:du", ()),
    Command(
        ("store", "verify"),
        "Verify the checksums of everything in the store.",
        _AT + "store:verify",
        (
            Option(
                ("--repair",),
                "repair",
                "Remove damaged objects and rebuild the index. Runs are not changed.",
                kind="flag",
            ),
            Option(
                ("--folder",),
                "folder",
                "Verify a folder of holdfast history push instead; --repair removes damaged files that you pushed.",
                metavar="FOLDER",
            ),
        ),
    ),
    Command(("store", "reindex"), "Rebuild the index from the run folders.", _AT + "store:reindex"),
    Command(
        ("store", "prune"),
        "Free disk space: unreferenced data, and runs past the retention settings.",
        _AT + "store:prune",
        (
            Option(("--keep-days",), "keep_days", "Also move ended runs older than N days to the trash.", metavar="N"),
            Option(("--dry-run",), "dry_run", "Only show what would be removed.", kind="flag"),
            Option(("--empty-trash",), "empty_trash", "Empty the trash.", kind="flag"),
            Option(
                ("--clock-is-right",),
                "clock_is_right",
                "Trust the system clock although it has jumped.",
                kind="flag",
            ),
        ),
    ),
    Command(
        ("config",),
        "Show or change your settings.",
        _AT + "settings:config",
        (Option(("--unset",), "unset", "Unset this setting.", kind="flag"),),
        (Positional("key", "Name of the setting.", required=False), Positional("value", "New value.", required=False)),
    ),
    Command(
        ("completion",),
        "Print the completion script for bash, zsh or fish.",
        _AT + "completion:completion",
        (
            Option(
                ("--candidates",),
                "candidates",
                "Print what can be typed next instead; the scripts use this and send what was typed on stdin.",
                kind="flag",
            ),
        ),
        (Positional("shell", "The shell.", "bash|zsh|fish"),),
        examples=(
            ("In ~/.bashrc or ~/.zshrc; in zsh after compinit", 'eval "$(holdfast completion bash)"'),
            ("For fish", "holdfast completion fish > ~/.config/fish/completions/holdfast.fish"),
        ),
    ),
)
