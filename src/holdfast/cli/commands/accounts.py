"""``holdfast account``, ``workspace``, ``service`` and ``model``: what old tools ask of an Azure account.

There is no account: the names are those of the original's project file, or the defaults of the share path.
"""

from __future__ import annotations

import os
import sys

from holdfast import project as projects
from holdfast.errors import UsageError
from holdfast.present.output import emit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.model import Json, Project

LOCAL = "local"  # resource group and region of everything
_REASONS = {
    "service": "Holdfast trains models and keeps their files; it does not deploy them, and the Azure service that did "
    "was shut down in 2019",
    "model": "models are not registered with a service, which was shut down in 2019; `holdfast promote` names and "
    "versions a file of a run",
}


def list_accounts(parsed: Parsed) -> int:
    emit([_account(_project(parsed).account, parsed)], **parsed.form(), columns=("name", "resourceGroup", "location"))
    return 0


def create_account(parsed: Parsed) -> int:
    return _answer_create(parsed, _account(parsed.text("name") or "", parsed), "account")


def list_workspaces(parsed: Parsed) -> int:
    project = _project(parsed)
    row = _workspace(project.workspace, parsed.text("account") or project.account, parsed)
    emit([row], **parsed.form(), columns=("name", "account", "resourceGroup", "location"))
    return 0


def create_workspace(parsed: Parsed) -> int:
    row = _workspace(parsed.text("name") or "", parsed.text("account") or LOCAL, parsed)
    return _answer_create(parsed, row, "workspace")


def not_offered(parsed: Parsed) -> int:
    word = parsed.command.words[0]
    raise UsageError(f"az ml {word} is not offered: {_REASONS[word]}")


def _answer_create(parsed: Parsed, row: Json, noun: str) -> int:
    emit(row, **parsed.form())
    sys.stderr.write(f"nothing was created: Holdfast needs no {noun}; project create accepts any name\n")
    return 0


def _project(parsed: Parsed) -> Project:
    return projects.find(parsed.text("project") or os.getcwd())


def _account(name: str, parsed: Parsed) -> Json:
    group = parsed.text("resource_group") or LOCAL
    location = parsed.values.get("location")
    return {
        "id": f"/resourceGroups/{group}/accounts/{name}",
        "location": location if isinstance(location, str) else LOCAL,
        "name": name,
        "resourceGroup": group,
    }


def _workspace(name: str, account: str, parsed: Parsed) -> Json:
    row = _account(account, parsed)
    return {**row, "account": account, "id": f"{row['id']}/workspaces/{name}", "name": name}
