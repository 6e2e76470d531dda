"""pip's configuration is read as pip reads it, and its addresses are in no command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.builder.uv import with_configuration, without_addresses
from holdfast.runner.machine.pip_configuration import BadAddress, call, folders, merged, portable, read

INDEX, EXTRA = "https://ada:word@index.example/simple", "https://extra.example/simple"


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """A user without any configuration; that of the machine itself is in /etc."""
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), "PIP_CONFIG_FILE": str(tmp_path / "own")}


def write(folder: str, name: str, text: str) -> None:
    path = Path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_null_device_as_configuration_file_means_no_files(user: dict[str, str]) -> None:
    write(user["HOME"], ".config/pip/pip.conf", f"[global]\nindex-url = {INDEX}\n")
    assert read({**user, "PIP_CONFIG_FILE": os.devnull}) == {}


def test_variables_override_files_and_sections_each_other(user: dict[str, str]) -> None:
    write(user["HOME"], "own", f"[global]\nindex_url = {EXTRA}\nno-index = yes\n[install]\nindex-url = {INDEX}\n")
    found = read(user)
    assert (found["index_url"], found["no_index"]) == (INDEX, True)
    found = read({**user, "PIP_INDEX_URL": EXTRA, "PIP_NO_INDEX": "0"})
    assert found["index_url"] == EXTRA
    assert "no_index" not in found


def test_lists_and_folders(user: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    links = f"~/wheels {tmp_path}/none https://links.example/page.html git+ssh://host/x"
    variables = {"PIP_FIND_LINKS": links.replace("~", str(tmp_path)), "PIP_EXTRA_INDEX_URL": f"{EXTRA}\n ftp://x"}
    found = read({**user, **variables, "PIP_TRUSTED_HOST": "a b"})
    assert found["find_links"] == [f"{tmp_path}/wheels", "https://links.example/page.html"]
    assert (found["extra_index_urls"], found["trusted_hosts"]) == ([EXTRA], ["a", "b"])
    assert folders(found) == [f"{tmp_path}/wheels"]
    assert portable(found)["find_links"] == ["https://links.example/page.html"]


@pytest.mark.parametrize("text", ["[global\n", "no section = 1\n", "\xff" * 10, "[global]\nindex-url = -x\n"])
def test_damaged_file_is_passed_over(user: dict[str, str], text: str) -> None:
    Path(user["PIP_CONFIG_FILE"]).write_text(text, encoding="latin-1")
    assert "index_url" not in read(user)


def test_result_agrees_with_pip(user: dict[str, str], tmp_path: Path) -> None:
    """Asked of pip itself, with a file of the user, one that a variable names, and variables."""
    write(user["HOME"], ".config/pip/pip.conf", f"[global]\nindex-url = {EXTRA}\ntrusted-host = from-user\n")
    for named in ("missing", "own"):
        if named == "own":
            write(user["HOME"], "own", "[install]\nextra-index-url =\n    https://a.example/\n    https://b.example/\n")
        environ = {**user, "PIP_CONFIG_FILE": str(tmp_path / named), "PATH": os.environ["PATH"]}
        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"], env=environ, capture_output=True, text=True, check=True
        ).stdout
        found = read(environ)
        assert ("index-url=" in said.replace("extra-index-url", "")) == ("index_url" in found), said
        assert ("from-user" in said) == ("from-user" in found.get("trusted_hosts", [])), said  # type: ignore[operator]
        assert ("b.example" in said) == ("https://b.example/" in found.get("extra_index_urls", [])), said  # type: ignore[operator]


def test_machine_that_installs_prefers_its_own_index() -> None:
    own: dict[str, object] = {"index_url": "https://mirror.example/simple", "find_links": ["/srv/wheels"]}
    sent: dict[str, object] = {
        "index_url": INDEX,
        "find_links": ["https://links.example/"],
        "extra_index_urls": [EXTRA],
    }
    assert merged(own, sent) == {
        "index_url": "https://mirror.example/simple",
        "find_links": ["/srv/wheels", "https://links.example/"],
        "extra_index_urls": [EXTRA],
    }
    assert merged({}, sent) == sent
    assert merged(own, None) == own


def test_option_of_the_project_comes_before_configuration() -> None:
    configured = {"index_url": INDEX, "extra_index_urls": [EXTRA], "find_links": ["/wheels"]}
    own = with_configuration({"index_url": "https://own.example/"}, configured)
    assert (own["index_url"], own.get("extra_index_urls"), own["find_links"]) == (
        "https://own.example/",
        None,
        ["/wheels"],
    )
    added = with_configuration({"extra_index_urls": ["https://own.example/"]}, configured)
    assert (added["index_url"], added["extra_index_urls"]) == (INDEX, ["https://own.example/", EXTRA])
    assert with_configuration({"index_url": "https://pypi.org/simple/"}, configured)["index_url"] == INDEX
    alone = with_configuration({"no_index": True}, configured)
    assert alone.get("index_url") is None


def test_addresses_are_variables_and_not_words() -> None:
    words = ("pip", "install", "--index", INDEX, "--index", EXTRA, "--default-index", INDEX, "--no-deps")
    plain, secret = without_addresses((*words, "--find-links", "https://a/x,y", "--find-links", "/wheels"))
    assert plain == ["pip", "install", "--no-deps"]
    assert secret == {
        "UV_INDEX": f"{INDEX} {EXTRA}",
        "UV_DEFAULT_INDEX": INDEX,
        "UV_FIND_LINKS": "https://a/x%2Cy,/wheels",
    }


@pytest.mark.parametrize("prefix", ["", "file://"])
def test_torch_of_a_named_folder_is_taken_instead_of_the_index_of_pytorch(tmp_path: Path, prefix: str) -> None:
    folder = f"{prefix}{tmp_path}"
    options = {"torch_backend": "cpu"}
    assert with_configuration(options, {"find_links": [folder]})["torch_backend"] == "cpu"
    (tmp_path / "torch-2.13.0-cp311-none-linux_x86_64.whl").touch()
    assert with_configuration(options, {"find_links": [folder]})["torch_backend"] == ""


def test_container_sees_the_files_beside_an_index_folder(tmp_path: Path) -> None:
    for name in ("mirror/simple", "other/index", "simple"):
        (tmp_path / name).mkdir(parents=True)
    options = {
        "index_url": f"file://{tmp_path}/mirror/simple/",
        "extra_index_urls": [f"file://{tmp_path}/other/index", "https://packages.example/simple", "file:///no/simple"],
        "find_links": [f"{tmp_path}/simple"],
    }
    assert folders(options) == [f"{tmp_path}/mirror", f"{tmp_path}/other/index", f"{tmp_path}/simple"]


@pytest.mark.parametrize(
    "address",
    [
        "http://ada:wo/rd@index.example/simple",
        "https://ada:wo#rd@index.example/simple",
        "https://ada:wo?rd@index.example/simple",
        "https://wo#rd@index.example/simple",
        "ada:word@index.example/simple",
        "https://",
    ],
)
@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"])
def test_address_with_a_password_that_splits_it_is_refused_and_not_shown(
    user: dict[str, str], name: str, address: str
) -> None:
    with pytest.raises(BadAddress) as refused:
        read({**user, name: address})
    assert "wo" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    "address", [INDEX, "http://a%2Fb:c@d@[::1]:80/x?sig=1", "http://h:8080", "https://token@h:443/a@b/", "http://h?x"]
)
def test_address_that_pip_can_read_is_accepted(user: dict[str, str], address: str) -> None:
    assert read({**user, "PIP_INDEX_URL": address})["index_url"] == address


def test_folder_with_an_at_sign_is_no_address(user: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "a@b").mkdir()
    assert read({**user, "PIP_FIND_LINKS": f"{tmp_path}/a@b"})["find_links"] == [f"{tmp_path}/a@b"]


def test_output_of_pip_is_logged_without_secrets(tmp_path: Path) -> None:
    printed = "see https://a:word@h/simple/?token=word#x and 'http://word@h/y' or http://h/z?sig=word'"
    with open(tmp_path / "log", "wb") as log:
        assert call([sys.executable, "-c", f"import sys; print({printed!r}); sys.exit(3)"], log) == 3
    assert (tmp_path / "log").read_text() == "see https://****@h/simple/ and 'http://****@h/y' or http://h/z'\n"
