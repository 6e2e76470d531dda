"""Command table: commands of the original about accounts and services, which old tools call and Holdfast needs not."""

from __future__ import annotations

from holdfast.cli.parse import Command, Option, Positional
from holdfast.cli.table.options import PROJECT

_AT = "holdfast.cli.commands."
_GROUP = Option(("--resource-group", "-g"), "resource_group", "Resource group; any name.", metavar="NAME")
_NAMED = Option(("--name", "-n"), "name", "Name.", metavar="NAME", required=True)
_ACCOUNT = Option(("--account", "-a"), "account", "Experimentation account; any name.", metavar="NAME")
_LOCATION = Option(("--location", "-l"), "location", "Region; any name.", metavar="NAME")
_IGNORED = Option(("--storage", "--owner"), "ignored", "Accepted and ignored.", metavar="TEXT", hidden=True)


def _not_offered(word: str, summary: str) -> Command:
    anything = Positional("arguments", "Ignored.", "ARGUMENTS", required=False)
    return Command((word,), summary, _AT + "accounts:not_offered", rest=anything, hidden=True)


# Their groups are not on the first page of help.
HIDDEN_GROUPS = {
    ("account",): "Accounts of the Azure Machine Learning Workbench; Holdfast needs none.",
    ("account", "experimentation"): "Experimentation accounts; Holdfast needs none.",
    ("workspace",): "Workspaces of the Azure Machine Learning Workbench; Holdfast needs none.",
}
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
