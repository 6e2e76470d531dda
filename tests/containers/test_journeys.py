"""The whole way of a run in a container, with either engine, here and on another machine."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from conftest import Desk, eventually
from containers.conftest import UP, WAITING, WAYS, Seat, give_tools
from enginelab import base_rootfs
from holdfast.amlconfig.types import DEFAULT_IMAGE
from lab.source import write_program
from managed import index
from ssh.test_links import Watched

if TYPE_CHECKING:
    from conftest import Result
    from containers.conftest import Ground
    from sshlab import Lab

everywhere = pytest.mark.parametrize("ground", WAYS, indirect=True)
here = pytest.mark.parametrize("ground", ["docker", "podman"], indirect=True)
there = pytest.mark.parametrize("ground", ["remote-docker", "remote-podman"], indirect=True)
with_docker_and_over_ssh = pytest.mark.parametrize("ground", ["docker", "remote-podman"], indirect=True)

ALL = """
import holdfast, os, sys
for n in range(200):
    (sys.stdout, sys.stderr)[n % 2].write('line %d\\n' % n)
    holdfast.log('n', n)
os.makedirs('outputs/deep')
open('outputs/deep/model', 'w').write('trained')
open('last.pt', 'w').write('weights')
os.write(1, b'|'.join(map(os.fsencode, sys.argv[1:])) + b'\\n')
"""
TOLD = f"""
import signal, sys, time
def told(number, frame):
    print('told', number, flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, told)
{UP}time.sleep(600)
"""
HOSTILE = ("--", "", "a b", "é", os.fsdecode(b"\xff\xfe"), "$(x)", "*", "'\"", "two\nlines", "x,y=z")


@everywhere
def test_streams_metrics_and_outputs_of_a_run_and_its_code_again(seat: Seat) -> None:
    result = seat.submit(ALL, arguments=HOSTILE)
    assert result.code == 0, result
    said = b"".join(b"line %d\n" % n for n in range(200)) + b"|".join(map(os.fsencode, HOSTILE)) + b"\n"
    assert said in result.out
    assert seat.desk.holdfast("logs").out == said == seat.attempt.joinpath("log").read_bytes()
    record = seat.desk.record()
    assert record["n"] == list(range(200))
    assert "outputs/deep/model" in record["attachments"]
    assert seat.desk.holdfast("history", "info", "-a", "last.pt").out == b"weights"
    made = [path for path in seat.attempt.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_uid for path in made} == {seat.uid}
    assert seat.desk.holdfast("history", "info", "-a", "outputs/deep/model").out == b"trained"
    seat.desk.script("changed")
    assert seat.desk.holdfast("restore", "-r", "1").code == 0
    assert (seat.desk.project / "train.py").read_text() == ALL
    assert record["interpreter"]["packages"] == len(record["packages"])
    assert record["interpreter"]["path"].startswith("/"), "the Python of the image"
    container = next(event for event in seat.desk.events() if event["type"] == "container")
    assert (container["engine"], container["image"], container["name"]) == (seat.name, "base:py", seat.container)
    assert len(container["image_id"].removeprefix("sha256:")) == 64


@everywhere
def test_the_scripts_end_is_the_runs_end(seat: Seat) -> None:
    assert seat.submit("raise SystemExit(7)").code == 7
    assert seat.desk.record()["reason"] == "the script exited with code 7"
    result = seat.submit("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (result.code, "SIGSEGV" in result.err) == (128 + signal.SIGSEGV, True), result
    late = seat.submit(TOLD, "--timeout", "2s")
    assert (late.code, "timed out after 2s" in late.err) == (124, True), late
    assert (seat.attempt / "workspace/above/work" / "train.py").exists(), "kept, for it did not complete"


@with_docker_and_over_ssh
def test_modules_shell_scripts_and_programs_run_in_the_container(seat: Seat) -> None:
    seat.target()
    seat.desk.script("import os, sys; print(__package__, sys.argv[1:], os.getcwd().endswith('work'))\n", "pkg/train.py")
    seat.desk.script("echo shell $1\n", "train.sh")

    def submit(*words: str) -> Result:
        return seat.desk.holdfast("submit", "-c", "box", *words)

    result = submit("-m", "pkg.train", "--lr", "1")
    assert (result.code, "pkg ['--lr', '1'] True\n" in result.text) == (0, True), result
    result = submit("--", "sh", "train.sh", "x")
    assert (result.code, "shell x\n" in result.text) == (0, True), result
    result = submit("--", "no-such-program")
    assert (result.code, "no program no-such-program on the PATH of the run" in result.err) == (127, True), result


@here
def test_container_on_this_machine_needs_no_file(seat: Seat) -> None:
    shutil.rmtree(seat.desk.project / "aml_config")
    seat.run("tag", "base:py", DEFAULT_IMAGE)
    try:
        seat.desk.script("import os; print(os.path.exists('/run/.containerenv') or os.path.exists('/.dockerenv'))")
        result = seat.desk.holdfast("submit", "-c", seat.name, "train.py")
        assert (result.code, "True\n" in result.text) == (0, True), result
        assert seat.desk.record()["target"] == seat.name
        assert seat.desk.holdfast("computetarget", "test", seat.name).code == 0
    finally:
        seat.run("rmi", "--force", DEFAULT_IMAGE)


@everywhere
def test_a_cancelled_script_is_told_and_then_gone(seat: Seat) -> None:
    seat.begin(TOLD)
    assert seat.desk.holdfast("cancel").code == 0
    record = seat.desk.wait_for_end(limit=120)
    assert record["status"] == "Canceled"
    assert seat.desk.holdfast("logs").out == b"up\ntold 15\n"
    seat.begin(f"import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{UP}time.sleep(600)", "--grace=1s")
    assert seat.desk.holdfast("cancel").code == 0
    assert seat.desk.wait_for_end(limit=120)["status"] == "Canceled"
    assert [event["type"] for event in seat.desk.events()].count("killed") == 1


@everywhere
def test_who_watched_was_killed_and_watches_again(seat: Seat) -> None:
    seat.desk.script(WAITING + "print('whole')\n")
    first = Watched(seat.desk.start("submit", "-c", "box", "train.py"))
    first.wait_for(b"up\n", 120)
    first.process.kill()
    assert first.finish() == -signal.SIGKILL
    assert seat.desk.record()["status"] == "Running"
    second = Watched(seat.desk.start("logs", "-f", "-r", "last"))
    second.wait_for(b"up\n", 120)
    seat.go()
    assert (second.finish(), second.out) == (0, b"up\nwhole\n")
    assert seat.desk.record()["status"] == "Completed"


@there
@pytest.mark.parametrize("how", ["drop", "reset"])
def test_a_cut_link_loses_and_repeats_nothing(seat: Seat, machines: Lab, how: Literal["drop", "reset"]) -> None:
    assert seat.user is not None
    seat.desk.script(
        "import os, time\nn = 0\nwhile not os.path.exists('go'):\n  n += 1\n  print('line', n)\n  time.sleep(0.01)"
    )
    client = Watched(seat.desk.start("submit", "-c", "box", "train.py"))
    client.wait_for(b"line 20\n", 120)
    work = seat.attempt / "workspace/above/work"
    machines.cut(seat.user.host, how=how)
    try:
        client.wait_for_words("unreachable since", 120)
        (work / "go").touch()
    finally:
        machines.heal(seat.user.host)
    assert client.finish() == 0, client.err
    log = seat.attempt.joinpath("log").read_bytes()
    assert log == b"".join(b"line %d\n" % n for n in range(1, log.count(b"\n") + 1))
    assert log in client.out


@everywhere
def test_commands_and_shells_join_the_container(seat: Seat) -> None:
    seat.begin(WAITING)
    inside = (
        "cat /etc/debian_version; test -d /azureml-share || echo no-share; id -u; pwd; echo $HOLDFAST_RUN_UID; exit 7"
    )
    shown = seat.desk.holdfast("exec", "--", "sh", "-c", inside)
    work, uid = seat.attempt / "workspace/above/work", seat.desk.record()["uid"]
    version = (base_rootfs() / "etc/debian_version").read_text().strip()
    seen = str(work).partition("/root")[2] if seat.user else str(work)
    assert (shown.code, shown.text.split()) == (7, [version, "no-share", str(seat.uid), seen, uid]), shown
    with seat.desk.start("exec", "cat", stdin=subprocess.PIPE) as process:
        data = os.urandom(300_000)
        assert process.communicate(data, timeout=120)[0] == data
    with seat.desk.start("ssh", stdin=subprocess.PIPE) as process:
        out, err = process.communicate(b"cat /etc/debian_version; pwd; id -u; exit 4\n", timeout=120)
    assert (process.returncode, out.decode().split()) == (4, [version, seen, str(seat.uid)]), err
    assert seat.desk.holdfast("exec", "nothing-like-it").code in (126, 127)  # docker's own, and podman's
    assert seat.desk.record()["status"] == "Running"
    seat.go()
    assert seat.desk.wait_for_end(limit=120)["status"] == "Completed"
    assert seat.desk.holdfast("exec", "true").code != 0, "its container was removed when it ended"


@here
def test_exec_command_ends_when_its_client_is_killed(seat: Seat) -> None:
    seat.begin(WAITING)
    with seat.desk.start("exec", "--", "sh", "-c", "sleep 1234 | sleep 1234") as process:
        eventually(lambda: seat.run("top", seat.container).count("sleep 1234") >= 2, 120)
        process.kill()
    eventually(lambda: "sleep 1234" not in seat.run("top", seat.container), 120)
    seat.go()
    assert seat.desk.wait_for_end(limit=120)["status"] == "Completed"


@everywhere
def test_values_reach_the_script_and_nothing_else(seat: Seat) -> None:
    secret, plain = "canary-5e1f\nand 'more'", "canary-77aa\n$x"
    text = f"import os\nassert os.environ['TOKEN'] == {secret!r} and os.environ['PLAIN'] == {plain!r}\n"
    seat.begin(text + WAITING, "--secret", "TOKEN", "-e", f"PLAIN={plain}", env={"TOKEN": secret})
    assert "canary" not in seat.run("inspect", seat.container)
    assert not [pid for pid, words in _command_lines() if b"canary-" in words and b"CANARY" not in words]
    attempt = seat.attempt
    seat.go()
    assert seat.desk.wait_for_end(limit=120)["status"] == "Completed"
    for top in {seat.desk.home, seat.store, attempt}:
        for path in top.rglob("*"):
            if path.is_file() and not path.is_symlink():
                assert b"canary-" not in path.read_bytes().replace(text.encode(), b""), path


def _command_lines() -> list[tuple[str, bytes]]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found.append((entry.name, (entry / "cmdline").read_bytes()))
            except OSError:
                continue
    return found


@everywhere
def test_the_shared_folder_outlives_runs_and_is_the_machines_own(seat: Seat, tmp_path: Path) -> None:
    place = f"{seat.user.home}/common" if seat.user else str(tmp_path / "common")
    seat.target(f"nativeSharedDirectory: {place}")
    counting = (
        "import os\nplace = os.environ['AZUREML_NATIVE_SHARE_DIRECTORY']\n"
        "open(place + 'runs', 'a').write('x')\nprint(place, open(place + 'runs').read())"
    )
    for n in (1, 2):
        result = seat.submit(counting)
        assert f"/azureml-share/ {'x' * n}\n" in result.text, result
    text = (seat.desk.project / "aml_config" / "box.compute").read_text()
    plain = text.replace("type: docker", "type: local").replace("type: remotedocker", "type: remote")
    (seat.desk.project / "aml_config" / "bare.compute").write_text(plain)
    seat.desk.trust("bare")
    result = seat.desk.holdfast("submit", "-c", "bare", "train.py")
    assert "/project/ xxx\n" in result.text, result


@with_docker_and_over_ssh
def test_links_show_folders_of_the_machine(seat: Seat) -> None:
    files = seat.published(index().path / "files")
    text = "import os; print(sorted(os.listdir('wheels')), os.path.islink('wheels'))"
    result = seat.submit(text, f"--link=wheels={files}")
    assert f"{sorted(os.listdir(files))} True" in result.text, result


@everywhere
def test_an_engine_that_cannot_see_our_folders(seat: Seat, tmp_path: Path) -> None:
    place = f"{seat.user.home}/common" if seat.user else str(tmp_path / "common")
    seat.target("sharedVolumes: false", f"nativeSharedDirectory: {place}")
    odd = "os.link('outputs/deep/model', 'outputs/second'); open('outputs/back\\\\slash.part', 'w').write('odd')\n"
    odd += "os.mkdir('checkpoints'); open('checkpoints/last.pt', 'w').write('weights')\n"
    script = "import os; assert 'AZUREML_NATIVE_SHARE_DIRECTORY' not in os.environ\n" + ALL + odd + "sys.exit(3)"
    result = seat.submit(script)
    assert result.code == 3, result
    assert b"".join(b"line %d\n" % n for n in range(200)) in result.out
    record = seat.desk.record()
    assert record["n"] == list(range(200))
    assert seat.desk.holdfast("history", "info", "-a", "outputs/deep/model").out == b"trained"
    for name, content in (("second", b"trained"), ("back\\slash.part", b"odd")):
        assert seat.desk.holdfast("history", "info", "-a", f"outputs/{name}").out == content
    assert seat.desk.holdfast("history", "info", "-a", "checkpoints/last.pt").out == b"weights"
    assert record["outputs"]["outside"]["files"] == 2
    assert record["outputs"]["complete"] is True
    made = [path for path in seat.attempt.rglob("*") if not path.is_symlink()]
    assert {path.stat().st_uid for path in made} == {seat.uid}
    seat.begin(TOLD)
    assert seat.desk.holdfast("cancel").code == 0
    assert seat.desk.wait_for_end(limit=120)["status"] == "Canceled"
    assert seat.desk.holdfast("logs").out == b"up\ntold 15\n"


@everywhere
def test_a_declared_environment_is_made_in_the_image_once(seat: Seat) -> None:
    give_tools(seat)
    seat.target("userManagedEnvironment: false")
    wheels = seat.published(index().path / "files").as_uri()
    (seat.desk.project / "requirements.txt").write_text(f"--no-index\n--find-links {wheels}\ntinypip==1.1\n")
    text = "import sys, tinypip\nprint('with', tinypip.WHOLE, sys.version.split()[0], sys.prefix)"
    for n in (1, 2):
        result = seat.submit(text)
        assert result.code == 0, (result, seat.desk.holdfast("history", "info", "-a", "control_log").text)
        assert "with 1.1 3.11.2 " in result.text
        log = seat.attempt / "environment.log"
        assert log.exists() == (n == 1), "a second run builds nothing"
    (made,) = [path for path in (seat.store / "envs").iterdir() if path.stat().st_uid == seat.uid]
    assert f"/envs/{made.name}\n" in result.text
    refused = seat.submit("import sys\nopen(sys.prefix + '/written', 'w')")
    assert "Read-only file system" in refused.text


@everywhere
def test_programs_of_packages_run_in_the_container_only(seat: Seat) -> None:
    give_tools(seat)
    seat.target("userManagedEnvironment: false")
    write_program(seat.desk.project / "packages", "hidden")
    (seat.desk.project / "requirements.txt").write_text("--no-index\n./packages/hidden-1.0.tar.gz\n")
    text = "import hidden; print('built on', hidden.BUILT_ON)"
    assert "hidden has no wheel" in seat.submit(text, "--preflight").text
    result = seat.submit(text)
    assert result.code == 0, (result, seat.desk.holdfast("history", "info", "-a", "control_log").text)
    assert "built on " in result.text
    assert f"built on {platform.node()}\n" not in result.text
    homes = [Path(seat.desk.env["HOME"]), *([seat.user.path("")] if seat.user else ())]
    assert not [path for home in homes for path in home.glob("*-was-built")]


@here
def test_an_image_of_the_projects_own_dockerfile(seat: Seat) -> None:
    (seat.desk.project / "image").mkdir()
    (seat.desk.project / "image" / "Dockerfile").write_text("FROM base:py\nENV MADE=here\nCOPY Dockerfile /from\n")
    seat.target("dockerfile: image/Dockerfile", "baseDockerImage: null")
    text = "import os; print(os.environ['MADE'], open('/from').readline().strip())"
    for _ in range(2):
        assert "here FROM base:py\n" in seat.submit(text).text
    built = [name for name in seat.images() if "holdfast-built" in name]
    assert len(built) == 1
    eventually(lambda: seat.containers() == [], 60)
    seat.run("rmi", *built)


@pytest.mark.parametrize("ground", ["podman"], indirect=True)
def test_a_plain_folder_is_an_image_too_and_stays_as_it_is(seat: Seat) -> None:
    rootfs = base_rootfs()
    seat.target(f"baseDockerImage: rootfs:{rootfs}")
    result = seat.submit("print(open('/etc/debian_version').read()); open('/tmp/written', 'w')")
    assert (result.code, (rootfs / "etc/debian_version").read_text() in result.text) == (0, True), result
    assert not (rootfs / "tmp" / "written").exists()


@here
def test_places_with_signs_that_engines_and_shells_read(ground: Ground, seat: Seat, tmp_path: Path) -> None:
    place = tmp_path / "a,b \"c\" 'd'\n$(e) é"
    place.mkdir()
    desk = Desk(place)
    desk.env = {**seat.desk.env, "HOME": str(desk.user_home), "HOLDFAST_HOME": str(desk.home)}
    other = Seat(desk, ground.engine, None)
    other.target(f"nativeSharedDirectory: {json.dumps(str(place / 'common'))}")
    (place / "data").mkdir()
    (place / "data" / "x").write_text("linked")
    result = other.submit(
        "import os\nprint(open('data/x').read(), os.environ['AZUREML_NATIVE_SHARE_DIRECTORY'])\n"
        "open('outputs/m', 'w').write('made')",
        f"--link=data={place / 'data'}",
    )
    assert "linked /azureml-share/\n" in result.text, result
    assert desk.holdfast("history", "info", "-a", "outputs/m").out == b"made"
