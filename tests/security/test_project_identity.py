"""The identity that a project's own files give it becomes part of paths in the store: only a GUID is taken."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from holdfast import project as projects
from holdfast.errors import ConfigError, UnreachableError
from holdfast.runner import untrusted
from holdfast.store.home import Home
from security.hostile import channel
from security.sentinel import Sentinel

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Desk

OURS, ORIGINAL = ".holdfast-project", os.path.join(".azureml", "project.json")
GUID = "8F3C2A1E-0000-4000-8000-0123456789AB"


@pytest.mark.parametrize("file", [OURS, ORIGINAL])
@pytest.mark.parametrize("identity", ["../../user/.ssh/authorized_keys", "{top}/outside/secret", "milliseconds", ""])
def test_submit_refuses_an_identity_that_is_not_a_guid(desk: Desk, file: str, identity: str) -> None:
    sentinel = Sentinel(desk.project.parent)
    desk.script("print(1)")
    _identify(desk.project, file, identity.format(top=desk.project.parent))
    done = desk.submit("train.py")
    assert done.code == 65, done.err
    assert file in done.err
    sentinel.check()


@pytest.mark.parametrize("file", [OURS, ORIGINAL])
def test_history_stays_under_a_guid_in_capitals(desk: Desk, file: str) -> None:
    desk.script("print(1)")
    _identify(desk.project, file, GUID)
    assert desk.submit("train.py").code == 0
    assert (desk.home / "numbers" / GUID).read_text() == "1\n"
    assert desk.record()["experiment_id"] == GUID


@pytest.mark.parametrize(
    ("file", "document"),
    [
        (OURS, {"id": GUID, "name": "../../x"}),
        (OURS, {"id": GUID, "name": ".."}),
        (ORIGINAL, {"Id": GUID, "Scope": "/accounts/../workspaces/w/projects/p"}),
        (ORIGINAL, {"Id": GUID, "Scope": "/accounts/a/workspaces/w/projects/.."}),
    ],
)
def test_names_that_lead_out_of_the_share_are_refused(tmp_path: Path, file: str, document: dict[str, str]) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(json.dumps(document))
    with pytest.raises(ConfigError):
        projects.find(str(tmp_path))


@pytest.mark.parametrize("lead", ["", "/"])
def test_names_of_the_workbench_are_those_of_its_scope(tmp_path: Path, lead: str) -> None:
    scope = "subscriptions/0f/resourceGroups/rg/providers/Microsoft.MachineLearningExperimentation/accounts/acct"
    (tmp_path / ".azureml").mkdir()
    document = {"Id": GUID, "Scope": f"{lead}{scope}/workspaces/ws1/projects/iris"}
    (tmp_path / ORIGINAL).write_text(json.dumps(document))
    project = projects.find(str(tmp_path))
    assert (project.account, project.workspace, project.name) == ("acct", "ws1", "iris")


@pytest.mark.parametrize("store", ["/any/path/x", "../../x", "", None, 7, "F" * 32, "f" * 31, ["f" * 32]])
def test_a_store_id_of_a_target_that_is_no_id_is_refused(store: object) -> None:
    opened = channel(lambda request: iter(()), hello={"store": store})
    with pytest.raises(UnreachableError, match="malformed"):
        opened.hello()
    opened.close()


def test_promote_writes_no_link_file_through_a_linked_folder(desk: Desk) -> None:
    desk.script("import os\nos.makedirs('outputs', exist_ok=True)\nopen('outputs/m', 'w').write('x')\n")
    assert desk.submit("train.py").code == 0
    sentinel = Sentinel(desk.project.parent)
    (desk.project / "assets").symlink_to(sentinel.file.parent)
    done = desk.holdfast("history", "promote", "-r", "last", "--artifact-path", "outputs/m", "--name", "m")
    assert done.code == 65, done.err
    sentinel.check()


BAD = ["../x", "/x", "..", "", "a/b", "a\0b", "x" * 300]


@pytest.mark.parametrize("name", BAD)
def test_no_path_of_the_store_is_made_from_a_name_that_leads_out(tmp_path: Path, name: str) -> None:
    """Whatever calls these: the store itself makes no path from such a name."""
    home = Home(str(tmp_path), "1" * 32)
    makers = (home.run, home.counter, home.lock_file, home.silent, home.environment, home.shims)
    for maker in makers:
        with pytest.raises(untrusted.Untrusted):
            maker(name)
    if "/" in name or "\0" in name or len(name) > 255:
        for prefixed in (home.stat_cache, home.solved, lambda name: home.shipped(name, "p")):
            with pytest.raises(untrusted.Untrusted):
                prefixed(name)
    if name != "a/b":
        with pytest.raises(untrusted.Untrusted):
            home.run("a" * 32, "a1", name)


def test_sentinel_finds_a_file_written_outside_and_one_read_from_there(tmp_path: Path) -> None:
    """The oracle itself: both planted bugs are found."""
    (tmp_path / "store").mkdir()
    sentinel = Sentinel(tmp_path)
    sentinel.check()
    planted = tmp_path / "store" / ".." / "outside" / "numbers"
    planted.write_text("1\n")
    with pytest.raises(AssertionError, match="numbers"):
        sentinel.check()
    planted.unlink()
    (tmp_path / "store" / "copy").write_bytes(sentinel.file.read_bytes())
    with pytest.raises(AssertionError, match="copied"):
        sentinel.check()


def _identify(root: Path, file: str, identity: str) -> None:
    (root / file).parent.mkdir(exist_ok=True)
    key = "Id" if file == ORIGINAL else "id"
    (root / file).write_text(json.dumps({key: identity, "Scope": "a/b"}))
