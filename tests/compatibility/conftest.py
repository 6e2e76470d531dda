"""Two versions of Holdfast on one store: the present one, and each earlier one that is kept in tests/fixtures/."""

from __future__ import annotations

import copy
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from conftest import Desk
from ssh.conftest import ada, attached, gpu1, lab, laptop, second, ssh_lab  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator

FIXTURES = sorted(path.parent for path in Path(__file__).parents[1].glob("fixtures/*/client.tar.xz"))
PLACE = "/srv"  # as in tests/fixtures/make.py
NAMESPACE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--"]
MOUNT = f'mount --bind "$0" {PLACE} && cd {PLACE}/digits && exec "$@"'
COMMAND = """\
#!{python}
import sys
sys.path.insert(0, {folder!r})
import holdfast
if not holdfast.__file__.startswith({folder!r}):
    sys.exit("this is not the earlier version: " + holdfast.__file__)
from holdfast.__main__ import main
main()
"""


class Earlier(NamedTuple):
    """An earlier version: its command ``holdfast``, and the folder with its store."""

    command: str
    folder: Path

    def client(self, desk: Desk) -> Any:
        """The same user with the same store and project, who runs the earlier version. ``Any``: a desk or a laptop."""
        client = copy.copy(desk)
        client.command = self.command
        return client


@pytest.fixture(scope="session", params=FIXTURES, ids=lambda path: path.name)
def earlier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Earlier:
    installed = tmp_path_factory.mktemp("earlier")
    unpack(request.param / "client.tar.xz", installed)
    command = installed / "command"
    command.write_text(COMMAND.format(python=sys.executable, folder=str(installed)))
    command.chmod(0o755)
    return Earlier(str(command), request.param)


class KeptStore(Desk):
    """The store and the project of an earlier version. Every command sees them mounted where that version had them.

    Runs remember where their store is, and confirmations where their project is.
    """

    def __init__(self, place: Path, earlier: Earlier) -> None:
        super().__init__(place)
        unpack(earlier.folder / "store.tar.xz", place)
        self.place = place
        self.project = place / "digits"
        self.env = {**self.env, "HOME": f"{PLACE}/user", "HOLDFAST_HOME": f"{PLACE}/store"}

    def start(self, *words: str, cwd: Path | None = None, **more: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more}
        argv = [*NAMESPACE, "sh", "-c", MOUNT, str(self.place), self.command, *words]
        return subprocess.Popen(argv, cwd=cwd, env=self.env, **pipes)


@pytest.fixture
def kept(tmp_path: Path, earlier: Earlier) -> Iterator[KeptStore]:
    probe = [*NAMESPACE, "mount", "--bind", str(tmp_path), PLACE]
    tried = subprocess.run(probe, capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"NOT TESTED: no mount namespace of one's own: {tried.stderr.strip()}")
    place = tmp_path / "place"
    place.mkdir()
    desk = KeptStore(place, earlier)
    yield desk
    (desk.user_home / "go").touch()  # ends what may still wait for it


def roles(desk: Desk, earlier: Earlier, starter: str) -> tuple[Any, Any]:
    """Who starts something and who uses it afterwards: the two versions on one store."""
    old = earlier.client(desk)
    return (old, desk) if starter == "earlier" else (desk, old)


def expected(earlier: Earlier) -> list[dict[str, Any]]:
    """What the earlier version printed about its store: ``command``, exit ``code`` and ``output``."""
    commands: list[dict[str, Any]] = json.loads((earlier.folder / "expected.json").read_text())["commands"]
    return commands


def unpack(archive: Path, folder: Path) -> None:
    data = lzma.decompress(archive.read_bytes())
    subprocess.run(["tar", "-xp", "--no-same-owner", "-C", str(folder)], input=data, check=True)
