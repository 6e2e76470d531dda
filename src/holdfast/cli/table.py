"""Every command there is, as data. The words of the original are the commands; short words are their aliases."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional

_AT = "holdfast.cli.commands."
_RUN = Option(
    ("--run", "-r", "--run-id"),
    "run",
    "Which run: last, a number, a run id, or any unique beginning of one.",
    metavar="RUN",
    default="last",
)
_OLD_TARGET = Option(
    ("--target", "-t"),
    "target",
    "Accepted for old command lines; the run knows its target.",
    metavar="NAME",
    hidden=True,
)
_PROJECT = Option(
    ("--project", "-p", "--path"), "project", "Folder of the project. Default: the current one.", metavar="PATH"
)
_NAME = Option(("--name", "-n"), "name", "Its name.", metavar="NAME")
_WORD = Positional("word", "Its name.", "NAME", required=False)
_ATTACH = (
    _NAME,
    Option(("--address", "-a"), "address", "Address of the machine.", metavar="HOST"),
    Option(("--username", "-u"), "username", "User name there.", metavar="USER"),
    Option(("--password", "-w"), "password", "Password there.", metavar="PASSWORD"),
    Option(("--use-azureml-ssh-key", "-k"), "own_key", "Use a key made for this target.", kind="flag"),
    Option(("--private-key-file",), "key_file", "Use this private key.", metavar="FILE"),
    Option(("--private-key-passphrase",), "passphrase", "Passphrase of that key.", metavar="TEXT"),
    Option(("--type", "-type"), "type", "remotedocker or cluster, as the first release wrote it.", metavar="KIND"),
    Option(("--cluster",), "cluster", "The same as --type cluster.", kind="flag"),
    Option(("--project", "-p"), "project", "Folder of the project. Default: the current one.", metavar="PATH"),
)

_SUBMIT = (
    Option(
        ("--run-configuration", "-c", "--runconfig"),
        "config",
        "Run configuration or target to run on. Default: local.",
        metavar="NAME",
    ),
    Option(("--target", "-t"), "target", "Another target than the one the run configuration names.", metavar="NAME"),
    _PROJECT,
    Option(("--wait",), "wait", "Stream the log until the run ends. This is the default.", kind="flag", trailing=True),
    Option(("--no-wait", "-d", "--detach"), "no_wait", "Print the run id and return; the run goes on.", kind="flag"),
    Option(("--dry-run",), "dry_run", "Print the plan and touch nothing.", kind="flag"),
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
    Option(("--keep-work",), "keep_work", "Keep the run's folder even if it completes.", kind="flag"),
    Option(("--yes", "-y"), "yes", "Do not ask before storing more than 1 GB of new files.", kind="flag"),
    Option(
        ("--skip-unreadable",),
        "skip_unreadable",
        "Leave files out that cannot be read, instead of refusing.",
        kind="flag",
    ),
)

COMMANDS = (
    Command(
        ("experiment", "submit"),
        "Run a script on a target, stream its log, keep it in the history.",
        _AT + "submit:submit",
        _SUBMIT,
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
        ("experiment", "status"),
        "Say what state a run is in.",
        _AT + "runs:status",
        (_RUN, _OLD_TARGET, _PROJECT),
        aliases=(("status",),),
        essential=True,
    ),
    Command(
        ("experiment", "cancel"),
        "End a run: SIGTERM to all its processes, SIGKILL after its grace time.",
        _AT + "runs:cancel",
        (_RUN, _OLD_TARGET, _PROJECT),
        aliases=(("cancel",),),
        essential=True,
    ),
    Command(
        ("experiment", "return"),
        "Copy a run's outputs into the project's outputs folder.",
        _AT + "runs:return_outputs",
        (
            _RUN,
            _OLD_TARGET,
            _PROJECT,
            Option(("--overwrite",), "overwrite", "Replace files that are different there.", kind="flag"),
        ),
        aliases=(("return",),),
    ),
    Command(
        ("history", "list"),
        "List the project's runs, newest first.",
        _AT + "history:list_runs",
        (_PROJECT, Option(("--all", "-A"), "all", "Runs of all projects.", kind="flag")),
        aliases=(("runs",),),
        examples=(
            (
                "The best accuracy so far",
                'holdfast history list --query "@[?Accuracy != null] | max_by(@, &Accuracy).Accuracy"',
            ),
        ),
        essential=True,
    ),
    Command(
        ("history", "info"),
        "Show all that is known of a run, or print one of its artifacts.",
        _AT + "history:info",
        (
            _RUN,
            _PROJECT,
            Option(
                ("--artifact", "-a", "--artifacts"),
                "artifact",
                "Print this artifact, for example driver_log.",
                metavar="NAME",
            ),
        ),
        aliases=(("info",),),
        essential=True,
    ),
    Command(("history", "last"), "Show the most recent run.", _AT + "history:last", (_PROJECT,)),
    Command(
        ("history", "download"),
        "Copy a run's artifacts, or one of them, into a folder.",
        _AT + "history:download",
        (
            _RUN,
            _PROJECT,
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
        ("history", "delete"),
        "Delete runs for good: their logs, metrics and outputs.",
        _AT + "history:delete",
        (
            _PROJECT,
            Option(
                ("--run", "-r", "--run-id"), "runs", "A run to delete; may be repeated.", kind="repeat", metavar="RUN"
            ),
            Option(("--yes", "-y"), "yes", "Do not ask.", kind="flag"),
        ),
    ),
    Command(
        ("logs",),
        "Print a run's log; with -f go on until it ends.",
        _AT + "runs:logs",
        (
            _RUN,
            _PROJECT,
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
        "Bring back the code of a run; what is there now is saved first.",
        _AT + "restore:restore",
        (
            _RUN,
            _PROJECT,
            Option(("--to",), "to", "Into this new folder instead of over the project.", metavar="DIR"),
            Option(("--saved",), "saved", "Bring back a state that an earlier restore saved.", metavar="NAME"),
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
            _PROJECT,
        ),
    ),
    Command(
        ("check",),
        "Check the files of aml_config and say everything that is wrong with them.",
        _AT + "targets:check",
        (_PROJECT,),
    ),
    Command(("computetarget", "list"), "List the names of all targets.", _AT + "targets:list_targets", (_PROJECT,)),
    Command(
        ("computetarget", "show"),
        "Show a target as it is understood.",
        _AT + "targets:show_target",
        (_NAME, _PROJECT),
        (_WORD,),
    ),
    Command(
        ("computetarget", "detach"), "Remove a target's files.", _AT + "targets:detach", (_NAME, _PROJECT), (_WORD,)
    ),
    Command(
        ("computetarget", "attach"),
        "Name a machine once, to run on it from then on.",
        _AT + "targets:attach",
        _ATTACH,
        (Positional("kind", "remotedocker, remote or cluster.", required=False),),
        aliases=(("computecontext", "attach"), ("attach",)),
        description="Machines over SSH are not part of this version; its command lines are understood and refused.",
    ),
    Command(
        ("runconfiguration", "list"),
        "List the names of all run configurations.",
        _AT + "targets:list_configurations",
        (_PROJECT,),
        aliases=(("runconfigurations", "list"),),
    ),
    Command(
        ("runconfiguration", "create"),
        "Make a run configuration for a target.",
        _AT + "targets:create_configuration",
        (_NAME, Option(("--target", "-t"), "target", "The target. Default: local.", metavar="NAME"), _PROJECT),
        (_WORD,),
        aliases=(("runconfigurations", "create"),),
    ),
    Command(
        ("runconfiguration", "delete"),
        "Remove a run configuration.",
        _AT + "targets:delete_configuration",
        (_NAME, _PROJECT),
        (_WORD,),
        aliases=(("runconfigurations", "delete"),),
    ),
    Command(
        ("shell",),
        "Open a shell in the project where az ml is Holdfast.",
        _AT + "shell:shell",
        (_PROJECT, Option(("--shell",), "shell", "Which shell to start. Default: yours.", metavar="NAME")),
        rest=Positional("command", "A command to run there instead.", "COMMAND", required=False),
        examples=(("Run an old sweep", "holdfast shell python run.py"),),
    ),
    Command(("du",), "Show what takes room in the store.", _AT + "store:du", (), essential=True),
    Command(("store", "reindex"), "Rebuild the index from the run folders.", _AT + "store:reindex"),
    Command(
        ("store", "prune"),
        "Give room back: what no run needs, and what the retention settings no longer keep.",
        _AT + "store:prune",
        (
            Option(("--keep-days",), "keep_days", "Also delete ended runs older than this.", metavar="N"),
            Option(("--dry-run",), "dry_run", "Only say what would go.", kind="flag"),
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
    ("runconfiguration",): "How to run: which target, which settings.",
    ("store",): "Look after the folder that keeps everything.",
}
