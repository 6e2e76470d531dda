"""All commands, as data. Commands have the names of the original; short names are aliases."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.comparison import COMPARISONS
from holdfast.cli.table.exchange import ASSETS, DIAGNOSTICS, EXCHANGE, LABELS, PASSPORTS
from holdfast.cli.table.history import HISTORY
from holdfast.cli.table.machines import MACHINES
from holdfast.cli.table.options import CONFIGURATION, NAME, OLD_TARGET, PROJECT, RUN, STORE_LARGE, SUBMIT, WORD

_AT = "holdfast.cli.commands."
COMMANDS = (
    Command(
        ("experiment", "submit"),
        "Run a script on a target, stream its log, keep it in the history.",
        _AT + "submit:submit",
        SUBMIT,
        rest=Positional(
            "script", "The script, then its own arguments, handed on untouched.", "SCRIPT [ARGUMENTS]", required=False
        ),
        aliases=(("submit",), ("execute", "start")),
        examples=(
            ("Run here and watch", "holdfast submit -c local train.py --lr 0.1"),
            ("Start and come back later", "holdfast submit -c local --no-wait train.py"),
            ("See what would happen", "holdfast submit -c local --dry-run train.py"),
        ),
        description="Options stand before the script. Ctrl-C stops watching, not the run. "
        "The exit code is the script's own.",
        essential=True,
    ),
    Command(
        ("experiment", "prepare"),
        "Make the environment of a target before the first run needs it.",
        _AT + "environments:prepare",
        CONFIGURATION,
        aliases=(("prepare",),),
    ),
    Command(("env", "list"), "List the environments in the store.", _AT + "environments:list_environments"),
    Command(
        ("env", "show"),
        "Show what is declared, where, what was solved for it and whether it is built.",
        _AT + "environments:show_declared",
        CONFIGURATION,
    ),
    Command(
        ("env", "lock"),
        "Write the exact packages into aml_config/NAME.lock.",
        _AT + "environments:lock",
        CONFIGURATION,
    ),
    Command(
        ("env", "verify"),
        "Find files of an environment that were changed.",
        _AT + "environments:verify",
        CONFIGURATION,
    ),
    Command(
        ("env", "add"),
        "Add packages to the file that declares the environment.",
        _AT + "environments:add",
        CONFIGURATION,
        (Positional("packages", "Packages, as pip names them.", "PACKAGE", many=True),),
    ),
    Command(
        ("env", "fix"),
        "Replace names and addresses that no longer exist in the file that declares the environment.",
        _AT + "environments:fix",
        (*CONFIGURATION, Option(("--gpu",), "gpu", "Choose builds for the target's GPU too.", kind="flag")),
    ),
    Command(
        ("env", "prune"),
        "Remove environments that no run uses; the newest and those in use stay.",
        _AT + "environments:prune",
        (
            Option(("--keep",), "keep", "How many of those last used to keep. Default: 5.", metavar="N", default="5"),
            Option(("--max-size",), "max_size", "Then the oldest until the rest is smaller than this.", metavar="SIZE"),
            Option(("--dry-run",), "dry_run", "Only say what would go.", kind="flag"),
        ),
    ),
    Command(
        ("experiment", "status"),
        "Say what state a run is in.",
        _AT + "runs:status",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("status",),),
        essential=True,
    ),
    Command(
        ("experiment", "cancel"),
        "End a run: SIGTERM to all its processes, SIGKILL after its grace time.",
        _AT + "runs:cancel",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("cancel",),),
        essential=True,
    ),
    Command(
        ("experiment", "retry"),
        "Start a lost run again: a further attempt of the same run.",
        _AT + "runs:retry",
        (RUN, OLD_TARGET, PROJECT),
        aliases=(("retry",),),
    ),
    Command(
        ("experiment", "return"),
        "Copy a run's outputs into the project's outputs folder.",
        _AT + "runs:return_outputs",
        (
            RUN,
            OLD_TARGET,
            PROJECT,
            Option(("--overwrite",), "overwrite", "Replace files that are different there.", kind="flag"),
        ),
        aliases=(("return",),),
    ),
    Command(
        ("mcp",),
        "Serve list, compare, submit, logs and cancel to a program that acts for you.",
        _AT + "agents:mcp",
        (
            PROJECT,
            Option(("--skill",), "skill", "Print the skill file for such a program instead.", kind="flag"),
        ),
        examples=(
            ("Let it spend four GPU-hours a day", "holdfast config agentGpuHours 4"),
            ("What a client is told to start", "holdfast mcp --project /home/ada/digits"),
        ),
        description="By the Model Context Protocol, on stdin and stdout. Without agentGpuHours no GPU can be used.",
    ),
    *HISTORY,
    Command(
        ("history", "info"),
        "Show all that is known of a run, or one of its artifacts.",
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
                ("--gpu-chart",), "gpu_chart", "Draw its GPUs over time into this .svg or .png file.", metavar="FILE"
            ),
        ),
        aliases=(("info",),),
        essential=True,
    ),
    Command(("history", "last"), "Show the most recent run.", _AT + "history:last", (PROJECT,)),
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
                "Into this folder. Default: the current one.",
                metavar="DIR",
                default=".",
            ),
            Option(("--overwrite",), "overwrite", "Replace files that are there already.", kind="flag"),
        ),
    ),
    Command(
        ("history", "pull"),
        "Bring the runs that others started on a machine into your history.",
        _AT + "machines:pull",
        (
            Option(
                ("--run-configuration", "-c", "--runconfig"),
                "config",
                "Run configuration or target to look at.",
                metavar="NAME",
                required=True,
            ),
            PROJECT,
        ),
        description="They keep their ids and get numbers of your own. Afterwards logs, info and cancel work on them.",
    ),
    Command(
        ("history", "delete"),
        "Delete runs with their logs, metrics and outputs; they stay in the trash for a while.",
        _AT + "history:delete",
        (
            PROJECT,
            Option(
                ("--run", "-r", "--run-id"), "runs", "A run to delete; may be repeated.", kind="repeat", metavar="RUN"
            ),
            Option(("--yes", "-y"), "yes", "Do not ask.", kind="flag"),
            Option(("--now",), "now", "For good, without the trash.", kind="flag"),
        ),
    ),
    *COMPARISONS,
    *LABELS,
    *ASSETS,
    *EXCHANGE,
    Command(
        ("logs",),
        "Print a run's log; with -f go on until it ends.",
        _AT + "runs:logs",
        (
            RUN,
            PROJECT,
            Option(("--follow", "-f"), "follow", "Go on until the run ends.", kind="flag"),
            Option(("--tail", "-n"), "tail", "Only the last N lines.", metavar="N"),
        ),
        essential=True,
    ),
    Command(
        ("project", "create"),
        "Make a project folder from a template.",
        _AT + "project:create",
        (
            Option(("--name", "-n"), "name", "Name of the project and of its folder.", metavar="NAME", required=True),
            Option(("--path",), "path", "Where to make the folder. Default: here.", metavar="DIR", default="."),
            Option(
                ("--template",),
                "template",
                "A template (project sample list), or the path of a folder of your own.",
                metavar="NAME",
                default="blank",
            ),
            Option(("--workspace", "-w"), "workspace", hidden=True),
            Option(("--account", "-a"), "account", hidden=True),
            Option(("--resource-group", "-g"), "resource_group", hidden=True),
        ),
        essential=True,
    ),
    Command(
        ("project", "restore"),
        "Bring back a run's code; what is there now is saved first.",
        _AT + "restore:restore",
        (
            RUN,
            PROJECT,
            Option(("--to",), "to", "Into this new folder instead of over the project.", metavar="DIR"),
            Option(("--saved",), "saved", "Bring back a state that an earlier restore saved.", metavar="NAME"),
            STORE_LARGE,
        ),
        aliases=(("restore",),),
        essential=True,
    ),
    Command(("project", "sample", "list"), "List the templates of project create.", _AT + "project:list_samples"),
    Command(
        ("diff",),
        "Compare the code of two runs, or of a run and the project now.",
        _AT + "restore:diff",
        (
            Option(
                ("--run", "-r", "--run-id"),
                "runs",
                "A run; twice for two. Default: last.",
                kind="repeat",
                metavar="RUN",
            ),
            PROJECT,
            STORE_LARGE,
        ),
    ),
    Command(
        ("check",),
        "Check the files of aml_config and say everything that is wrong with them.",
        _AT + "targets:check",
        (PROJECT,),
    ),
    *MACHINES,
    Command(
        ("runconfiguration", "list"),
        "List the names of all run configurations.",
        _AT + "targets:list_configurations",
        (PROJECT,),
        aliases=(("runconfigurations", "list"),),
    ),
    Command(
        ("runconfiguration", "create"),
        "Make a run configuration for a target.",
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
        "Open a shell in the project where az ml is Holdfast.",
        _AT + "shell:shell",
        (PROJECT, Option(("--shell",), "shell", "Which shell to start. Default: yours.", metavar="NAME")),
        rest=Positional("command", "A command to run there instead.", "COMMAND", required=False),
        examples=(("Run an old sweep", "holdfast shell python run.py"),),
    ),
    *PASSPORTS,
    *DIAGNOSTICS,
    Command(("du",), "Show what takes room in the store.", _AT + "store:du", ()),
    Command(
        ("store", "verify"),
        "Read everything that is stored and say what is not as it was written.",
        _AT + "store:verify",
        (
            Option(
                ("--repair",),
                "repair",
                "Take damaged objects away and rebuild the index, so that they are made again. Touches no run.",
                kind="flag",
            ),
        ),
    ),
    Command(("store", "reindex"), "Rebuild the index from the run folders.", _AT + "store:reindex"),
    Command(
        ("store", "prune"),
        "Give room back: what no run needs, and what the retention settings no longer keep.",
        _AT + "store:prune",
        (
            Option(("--keep-days",), "keep_days", "Also move ended runs older than this to the trash.", metavar="N"),
            Option(("--dry-run",), "dry_run", "Only say what would go.", kind="flag"),
            Option(("--empty-trash",), "empty_trash", "Remove all deleted runs for good.", kind="flag"),
            Option(
                ("--clock-is-right",),
                "clock_is_right",
                "Believe the clock although it has moved a lot since the last time.",
                kind="flag",
            ),
        ),
    ),
    Command(
        ("config",),
        "Show or change your settings.",
        _AT + "settings:config",
        (Option(("--unset",), "unset", "Forget this setting.", kind="flag"),),
        (Positional("key", "Which setting.", required=False), Positional("value", "Its new value.", required=False)),
    ),
)

GROUPS = {
    (): "Run a training script on any machine you can reach, and prove afterwards what happened.",
    ("experiment",): "Start runs and look after them.",
    ("history",): "Find runs again: what was run, with what result.",
    ("project",): "Make projects and bring their code back.",
    ("project", "sample"): "Templates.",
    ("computetarget",): "Machines to run on.",
    ("image",): "Images of a target's container engine.",
    ("runconfiguration",): "How to run: which target, which settings.",
    ("env",): "Environments: what is declared, solved and built.",
    ("asset",): "Outputs of runs under names of their own.",
    ("passport",): "Runs as signed files.",
    ("store",): "Look after the folder that keeps everything.",
}
