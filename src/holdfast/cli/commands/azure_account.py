"""``az login``, ``az account`` and ``az group`` where there is no Azure CLI: old tools call them around ``az ml``.

There is no account, so they answer with one subscription and one resource group that stand for this machine.
"""

from __future__ import annotations

import os
import sys

from holdfast.cli.parse import Command, Option
from holdfast.present.output import emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Form, Parsed
    from holdfast.model import Json

_ID = "00000000-0000-0000-0000-000000000000"
_NAME = "local"
_AT = "holdfast.cli.commands.azure_account:"
_COLUMNS = ("name", "id", "state", "isDefault")
_LOGIN = (
    Option(("--username", "-u"), "username", "Ignored.", metavar="NAME"),
    Option(("--password", "-p"), "password", "Ignored.", metavar="PASSWORD"),
    Option(("--tenant", "-t"), "tenant", "Ignored.", metavar="NAME"),
    Option(("--service-principal", "--use-device-code", "--identity", "-i"), "way", "Ignored.", kind="flag"),
)
_SUBSCRIPTION = Option(
    ("--subscription", "-s", "--name", "-n"), "subscription", "A subscription; any name or id.", metavar="NAME"
)
_ALL = Option(("--all", "--refresh"), "all", "Ignored.", kind="flag")
COMMANDS = (
    Command(("login",), "Answer with the subscription that stands for this machine.", _AT + "login", _LOGIN),
    Command(("logout",), "Do nothing: there is no account.", _AT + "logout", _LOGIN[:1]),
    Command(("account", "list"), "List the subscription that stands for this machine.", _AT + "list_all", (_ALL,)),
    Command(("account", "set"), "Accept any subscription.", _AT + "choose", (_SUBSCRIPTION,)),
    Command(("account", "show"), "Show the subscription that stands for this machine.", _AT + "show", (_SUBSCRIPTION,)),
    Command(("group", "list"), "List the resource group that stands for this machine.", _AT + "list_groups"),
)


def login(parsed: Parsed) -> int:
    sys.stderr.write("nothing to do: Holdfast needs no account\n")
    return list_all(parsed)


def logout(parsed: Parsed) -> int:  # noqa: ARG001 - the signature of a command
    sys.stderr.write("nothing to do: Holdfast needs no account\n")
    return 0


def list_all(parsed: Parsed) -> int:
    emit([_subscription()], **_form(parsed), columns=_COLUMNS)
    return 0


def choose(parsed: Parsed) -> int:  # noqa: ARG001 - the signature of a command
    sys.stderr.write("nothing to do: Holdfast needs no subscription\n")
    return 0


def show(parsed: Parsed) -> int:
    emit(_subscription(), **_form(parsed), columns=_COLUMNS)
    return 0


def list_groups(parsed: Parsed) -> int:
    group = {
        "id": f"/subscriptions/{_ID}/resourceGroups/{_NAME}",
        "location": _NAME,
        "managedBy": None,
        "name": _NAME,
        "properties": {"provisioningState": "Succeeded"},
        "tags": None,
    }
    emit([group], **_form(parsed), columns=("name", "location"))
    return 0


def _subscription() -> Json:
    user = os.environ.get("USER") or os.environ.get("USERNAME") or "unknown"
    return {
        "cloudName": "AzureCloud",
        "id": _ID,
        "isDefault": True,
        "name": _NAME,
        "state": "Enabled",
        "tenantId": _ID,
        "user": {"name": user, "type": "user"},
    }


def _form(parsed: Parsed) -> Form:
    """JSON at a terminal too, as the Azure CLI."""
    return {"fmt": parsed.text("output") or "json", "query": parsed.text("query"), "capitals": True}
