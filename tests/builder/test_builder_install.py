"""Installing for real: what was built in one place works in another, is read-only and can be proved."""

from __future__ import annotations

import json
import os
import platform
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from builder.asking import Builder, conda_spec, pip_spec, said
from builder.wheels import write_wheel
from lab.pythons import OLDEST, python_of
from lab.server import serve

if TYPE_CHECKING:
    from lab.channel import Channel
    from lab.index import Index
    from lab.server import Server

HERE = {"python": sys.executable}
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
TAG = sys.implementation.cache_tag

BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "own-1-py3-none-any.whl"
    files = {"_own.pth": os.path.join(os.getcwd(), "src") + "\\n",
             "own-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: own\\nVersion: 1\\n",
             "own-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
             "own-1.dist-info/entry_points.txt": "[console_scripts]\\nown-say = own:main\\n",
             "own-1.dist-info/RECORD": ""}
    with zipfile.ZipFile(os.path.join(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
"""


@pytest.fixture(scope="module")
def conda_lock(channel: Channel, index: Index, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    builder = Builder(tmp_path_factory.mktemp("lock"))
    links = {"find_links": [str(index.path / "files")], "no_index": True}
    spec = conda_spec(channel.file_url, "tinysay", "tinyroot", pip=("tinydep",), pip_options=links)
    return builder.lock(spec)


@pytest.fixture(scope="module")
def published(conda_lock: dict[str, Any], warm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Builder(tmp_path_factory.mktemp("published"), warm_cache).environment(conda_lock)


def test_it_works_where_it_was_renamed_to(published: Path) -> None:
    assert said(published / "bin/tiny-say") == "says 1.1"
    assert said(published / "bin/tinyroot") == str(published)
    shown = "import sys, sysconfig, tinydep; print(sys.prefix, sysconfig.get_config_var('prefix'), tinydep.WHOLE)"
    assert said(published / "bin/python", "-c", shown) == f"{published} {published} 1.1"


def test_nothing_remembers_where_it_was_built(published: Path) -> None:
    searched = [path for path in published.rglob("*") if path.is_file()]
    assert len(searched) > 1000
    assert [path for path in searched if b"env.building" in path.read_bytes()] == []


def test_nothing_can_be_written(published: Path) -> None:
    everything = [published, *published.rglob("*")]
    assert [path for path in everything if not path.is_symlink() and path.stat().st_mode & 0o222] == []


def test_installed_environment_describes_itself(published: Path, conda_lock: dict[str, Any]) -> None:
    about = json.loads((published / "holdfast-environment.json").read_text())
    assert about["lock"] == conda_lock
    assert about["builder"] == conda_lock["builder"]
    assert about["ledger"]["packages"] == 7


def test_every_module_has_its_bytecode(published: Path) -> None:
    def bytecode(path: Path) -> Path:
        return path.parent / "__pycache__" / f"{path.stem}.{TAG}.pyc"

    sources = [path for path in (published / "lib").rglob("*.py") if not path.is_symlink()]
    assert len(sources) > 500
    assert [path for path in sources if not bytecode(path).exists()] == []
    unchecked_hash = b"\x01\0\0\0"
    assert {bytecode(path).read_bytes()[4:8] for path in sources} == {unchecked_hash}


def test_packages_and_bytecode_are_shared(builder: Builder, published: Path, conda_lock: dict[str, Any]) -> None:
    answer = builder.install(conda_lock)
    # Only the one module that names its prefix differs between environments.
    assert {event["total"] for event in answer.progress if event["phase"] == "compile"} == {1}
    other = Path(builder.where("env")["beside"])
    for name in (
        "lib/libpython3.so",
        f"{SITE}/tinysay.py",
        f"{SITE}/tinypip.py",
        f"{SITE}/__pycache__/tinypip.{TAG}.pyc",
    ):
        if (published / name).exists():
            assert (other / name).samefile(published / name)
    assert (other / f"{SITE}/__pycache__/tinysay.{TAG}.pyc").samefile(
        published / f"{SITE}/__pycache__/tinysay.{TAG}.pyc"
    )


def test_the_ledger_and_the_progress_of_a_cold_build(tmp_path: Path, channel: Channel) -> None:
    builder = Builder(tmp_path)
    answer = builder.install(builder.lock(conda_spec(channel.file_url, "tinysay")))
    ledger = answer.last["ledger"]
    assert set(ledger) == {"download_s", "link_s", "compile_s", "packages", "bytes"}
    assert ledger["packages"] == 4
    assert ledger["bytes"] > 10e6
    assert all(ledger[name] > 0 for name in ("download_s", "link_s", "compile_s"))
    assert [event["phase"] for event in answer.progress if event["done"] == event["total"]] == [
        "download",
        "link",
        "compile",
    ]
    assert {event["total"] for event in answer.progress if event["phase"] == "link"} == {4}


def test_a_traceback_names_the_published_file(builder: Builder, tmp_path: Path) -> None:
    """Both the environment that compiled it and the one that took it from the cache."""
    write_wheel(tmp_path / "wheels", "failing", "1", {"failing.py": "def fail():\n    raise OSError\n"})
    lock = builder.lock(_from_folder(tmp_path / "wheels", "failing"), **HERE)
    for name in ("one", "two"):
        prefix = builder.environment(lock, name)
        command = "import failing; failing.fail()"
        failed = subprocess.run([prefix / "bin/python", "-c", command], capture_output=True, text=True, check=False)
        assert f'"{prefix}/{SITE}/failing.py", line 2' in failed.stderr


def test_what_cannot_be_compiled_is_left_alone(builder: Builder, tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "olden", "1", {"olden.py": "print 'hello'\n", "same.py": "", "too.py": ""})
    lock = builder.lock(_from_folder(tmp_path / "wheels", "olden"), **HERE)
    for name in ("one", "two"):
        compiled = {path.name for path in (builder.environment(lock, name) / SITE / "__pycache__").iterdir()}
        assert compiled == {f"same.{TAG}.pyc", f"too.{TAG}.pyc"}


def test_the_oldest_python_takes_its_bytecode_too(builder: Builder, tmp_path: Path) -> None:
    write_wheel(tmp_path / "wheels", "plain", "1", {"plain.py": "WHOLE = 1\n"})
    oldest = python_of(OLDEST)
    lock = builder.lock(_from_folder(tmp_path / "wheels", "plain"), python=oldest)
    for name in ("one", "two"):
        prefix = builder.environment(lock, name, python=oldest)
        shown = subprocess.run(
            [prefix / "bin/python", "-v", "-c", "import plain"], capture_output=True, text=True, check=True
        )
        assert f"plain.cpython-36.pyc matches {prefix}/lib/python3.6/site-packages/plain.py" in shown.stderr


def test_a_pip_environment_works_where_it_was_renamed_to(builder: Builder, served: Server, tmp_path: Path) -> None:
    entry = {"saying.py": "def main():\n    import tinypip\n    print(tinypip.WHOLE)\n"}
    entry["saying-1.dist-info/entry_points.txt"] = "[console_scripts]\nsay-it = saying:main\n"
    write_wheel(tmp_path / "wheels", "saying", "1", entry)
    spec = pip_spec("tinydep", "saying", index=f"{served.url}/simple/")
    spec["pip_options"]["find_links"] = [str(tmp_path / "wheels")]
    prefix = builder.environment(builder.lock(spec, **HERE))
    assert said(prefix / "bin/say-it") == "1.1"
    assert said(prefix / "bin/python", "-c", "import sys; print(sys.prefix)") == str(prefix)
    assert [path for path in prefix.rglob("*") if path.is_file() and b"env.building" in path.read_bytes()] == []


def test_offline_install_opens_no_connection(builder: Builder, channel: Channel, served: Server) -> None:
    with serve(channel.path) as shop:
        spec = conda_spec(shop.url, "tinynum", pip=("tinydep",), pip_options={"index_url": f"{served.url}/simple/"})
        lock = builder.lock(spec)
        builder.environment(lock, "first")
        shop.paths.clear()
        served.paths.clear()
        prefix = builder.environment(lock, "second", offline=True)
        assert (shop.paths, served.paths) == ([], [])
        assert said(prefix / "bin/python", "-c", "import tinydep, tinynum; print(tinynum.WHOLE)") == "2.0"


@pytest.mark.parametrize("kind", ["conda", "pip"])
def test_offline_and_not_in_the_cache(tmp_path: Path, channel: Channel, served: Server, kind: str) -> None:
    other, builder = Builder(tmp_path, tmp_path / "other"), Builder(tmp_path)
    pip = pip_spec("tinypip", index=f"{served.url}/simple/")
    lock = other.lock(conda_spec(channel.file_url, "tinynum") if kind == "conda" else pip, **HERE)
    answer = builder.install(lock, offline=True)
    assert answer.last["kind"] == "unreachable"
    assert "tinynum" in answer.last["what"] or "tinypip" in answer.last["what"]
    assert not Path(builder.where("env")["beside"]).exists()


@pytest.mark.parametrize("scheme", ["file", "http"])
def test_a_tampered_archive_is_refused(tmp_path: Path, tampered: Channel, scheme: str) -> None:
    builder = Builder(tmp_path)
    with serve(tampered.path) as server:
        lock = builder.lock(conda_spec(tampered.file_url if scheme == "file" else server.url, "tinylearn"))
        answer = builder.install(lock)
    assert (answer.code, answer.last["kind"]) == (1, "hash")
    assert "tinynum-1.1-py_0.conda" in answer.last["where"]
    assert not Path(builder.where("env")["beside"]).exists()


def test_a_cached_package_of_the_same_name_is_not_the_same(
    builder: Builder, channel: Channel, tampered: Channel
) -> None:
    """The lock says which content, whatever lies in the cache under that name."""
    lock = builder.lock(conda_spec(channel.file_url, "tinylearn"))
    assert _fits(builder.environment(lock, "first")) == "1.1"
    for package in lock["conda"]:
        if package["name"] == "tinynum":
            archive = tampered.path / "noarch/tinynum-1.1-py_0.conda"
            package.update(
                url=archive.as_uri(), sha256=said("sha256sum", archive).split()[0], size=archive.stat().st_size
            )
    assert _fits(builder.environment(lock, "second")) == "tampered"


def test_a_wrong_hash_of_a_wheel_is_refused(builder: Builder, served: Server) -> None:
    answer = builder.install(builder.lock(pip_spec("tinybad", index=f"{served.url}/simple/"), **HERE))
    assert answer.last["kind"] == "hash"
    assert "Hash mismatch for `tinybad==1.0`" in answer.last["what"]


def test_a_lock_without_hashes_is_refused(builder: Builder, served: Server) -> None:
    lock = builder.lock(pip_spec("tinypip", index=f"{served.url}/simple/"), **HERE)
    answer = builder.install({**lock, "pip": ["tinypip==1.1"]})
    assert (answer.last["kind"], answer.last["where"]) == ("hash", "tinypip==1.1")


def test_a_missing_compiler_is_named(tmp_path: Path, served: Server) -> None:
    builder = Builder(tmp_path)
    lock = builder.lock(pip_spec("tinyfast", index=f"{served.url}/simple/"), **HERE)
    answer = builder.install(lock, env={"CC": "/nowhere/cc"})
    assert answer.last["kind"] == "compiler"
    assert "tinyfast==1.0" in answer.last["what"]
    reason = "error: command '/nowhere/cc' failed: No such file or directory"
    assert any(reason in line for line in answer.last["tail"])
    assert reason in builder.log.read_text()


def test_a_lock_for_another_machine_is_refused(builder: Builder, served: Server) -> None:
    lock = builder.lock(pip_spec("tinypip", index=f"{served.url}/simple/"), **HERE)
    other = builder.install({**lock, "platform": "osx-arm64"})
    assert (other.last["kind"], "osx-arm64" in other.last["what"]) == ("platform", True)
    older = builder.install({**lock, "python": {"version": "3.4.1", "identity": ""}})
    assert (older.last["kind"], platform.python_version() in older.last["what"]) == ("platform", True)


def test_no_secret_stays_in_the_environment(builder: Builder, served: Server) -> None:
    """The answer to a solve has none; who asks for the installation fills them in."""
    url = f"{served.url.replace('//', '//ada:s3cret@')}/files/tinypip-1.1-py3-none-any.whl?sig=s3cret"
    answer = builder.solve(pip_spec(f"tinypip @ {url}"), **HERE)
    bare = f"{served.url}/files/tinypip-1.1-py3-none-any.whl"
    assert answer.last["lock"]["pip"][0].startswith(f"tinypip @ {bare} --hash=")
    assert "s3cret" not in answer.text
    whole = {**answer.last["lock"], "pip": [answer.last["lock"]["pip"][0].replace(bare, url)]}
    prefix = builder.environment(whole)
    assert json.loads((prefix / SITE / "tinypip-1.1.dist-info/direct_url.json").read_text())["url"] == (
        f"{served.url}/files/tinypip-1.1-py3-none-any.whl"
    )
    assert [path for path in prefix.rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()] == []
    assert "s3cret" not in builder.log.read_text()


def test_the_own_package_is_wherever_the_run_is(builder: Builder, served: Server, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/own.py").write_text("def main():\n    import tinypip\n    print(__file__, tinypip.WHOLE)\n")
    (project / "backend.py").write_text(BACKEND)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (project / "pyproject.toml").write_text(build + '[project]\nname = "own"\nversion = "1"\n')
    lock = builder.lock(pip_spec("tinypip", index=f"{served.url}/simple/", own_package=True), **HERE)
    answer = builder.install(lock, own_package=str(project))
    assert answer.last["own_paths"] == ["src"]
    prefix = Path(builder.where("env")["beside"]).rename(builder.where("env")["prefix"])
    copy = project.rename(tmp_path / "copy")
    shown = said(prefix / "bin/own-say", env={"PYTHONPATH": str(copy / "src"), "PATH": os.environ["PATH"]})
    assert shown == f"{copy}/src/own.py 1.1"
    mentioned = [path for path in prefix.rglob("*.p*") if path.is_file() and str(project).encode() in path.read_bytes()]
    assert mentioned == []


def test_cntk_finds_openmpi_by_its_old_names(builder: Builder, tmp_path: Path) -> None:
    """Also an OpenMPI that is installed after the environment was built, or that only the image of a container has."""
    write_wheel(tmp_path / "wheels", "cntk_gpu", "2.7", {"cntk.py": ""})
    write_wheel(tmp_path / "wheels", "pip", "1", {"pip.py": ""})
    system = tmp_path / "system"
    system.mkdir()
    lock = builder.lock(_from_folder(tmp_path / "wheels", "cntk-gpu"), **HERE)
    assert [line.split("==")[0] for line in lock["pip"]] == ["cntk-gpu", "pip"]
    answer = builder.install(lock, env={"LD_LIBRARY_PATH": str(system)})
    prefix = Path(builder.where("env")["beside"]).rename(builder.where("env")["prefix"])
    folders = answer.last["library_path"]
    assert folders[0] == f"{prefix}/lib/holdfast-compat/0"
    links = [str(Path(folder, name).readlink()) for folder in folders for name in ("libmpi.so.12", "libmpi_cxx.so.1")]
    assert links[:2] == [f"{system}/libmpi.so.40", f"{system}/libmpi_cxx.so.40"]
    assert "/usr/lib/x86_64-linux-gnu/libmpi.so.40" in links
    assert "/usr/lib64/openmpi/lib/libmpi_cxx.so.40" in links
    load = "import ctypes; ctypes.CDLL('libmpi_cxx.so.1'); print('loaded')"
    argv = [str(prefix / "bin/python"), "-c", load]
    env = {**os.environ, "LD_LIBRARY_PATH": ":".join(folders[:1])}
    before = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert "libmpi_cxx.so.1: cannot open shared object file" in before.stderr
    (libc,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line}
    (system / "libmpi_cxx.so.40").symlink_to(libc)
    assert said(*argv, env=env) == "loaded"


def test_verify_finds_what_was_done_to_it(builder: Builder, served: Server) -> None:
    prefix = builder.environment(builder.lock(pip_spec("tinydep", index=f"{served.url}/simple/"), **HERE))
    site = prefix / SITE
    untouched = {"event": "done", "changed": [], "missing": [], "extra": []}
    assert builder.ask("verify", prefix=str(prefix)).last == untouched
    for folder in (site, site / "__pycache__"):
        folder.chmod(stat.S_IRWXU)
    content = (site / "tinydep.py").read_bytes()
    (site / "tinydep.py").unlink()
    (site / "tinydep.py").write_bytes(content.swapcase())
    (site / "__pycache__" / f"tinypip.{TAG}.pyc").unlink()
    (site / "sitecustomize.py").touch()
    assert builder.ask("verify", prefix=str(prefix)).last == {
        "event": "done",
        "changed": [f"{SITE}/tinydep.py"],
        "missing": [f"{SITE}/__pycache__/tinypip.{TAG}.pyc"],
        "extra": [f"{SITE}/sitecustomize.py"],
    }


def _from_folder(folder: Path, *wanted: str) -> dict[str, Any]:
    return {**pip_spec(*wanted), "pip_options": {"find_links": [str(folder)], "no_index": True}}


def _fits(prefix: Path) -> str:
    return said(prefix / "bin/python", "-c", "import tinylearn; print(tinylearn.fit())")
