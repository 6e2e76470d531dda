"""The machines of the ssh lab are real: logins, lost packets and cleanup."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import alive, eventually
from sshlab import CommandFailed, Lab, NoSuchPython, Unavailable, clock_since_boot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sshlab import Client, Host, User

PASSWORD = "corr3ct horse"
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 22), timeout=float(sys.argv[2])).close()
except OSError as problem:
    print(problem.errno or "timeout")
else:
    print("connected")
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Lab]:
    try:
        with Lab() as lab:
            yield lab
    except Unavailable as why:
        pytest.skip(f"NOT TESTED: {why}")


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.reset()


@pytest.fixture
def gpu1(lab: Lab) -> Host:
    return lab["gpu1"]


@pytest.fixture
def ada(gpu1: Host) -> User:
    return gpu1.user("ada", password=PASSWORD)


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Client:
    laptop = lab.client(tmp_path / "user")
    for host in lab.hosts.values():
        laptop.trust(host)
    return laptop


@pytest.fixture
def let_in(laptop: Client, ada: User) -> User:
    ada.authorize(laptop.key())
    return ada


def test_the_machine_is_not_part_of_it(lab: Lab, laptop: Client, ada: User) -> None:
    places = [
        Path("/etc/passwd"),
        Path("/etc/shadow"),
        Path("/etc/group"),
        Path("/etc/hosts"),
        Path("/proc/self/mounts"),
    ]
    assert not [path for path in places if "ada" in path.read_text() or "gpu1" in path.read_text()]
    links = json.loads(subprocess.check_output(["ip", "-j", "address"]))
    assert not [link for link in links if "10.213." in json.dumps(link) or link["ifname"].startswith("p1")]
    assert "10.213." not in subprocess.check_output(["ip", "route"], text=True)
    assert not Path("/home/ada").exists()


def test_a_key_opens_the_door(laptop: Client, let_in: User) -> None:
    assert laptop.run("ssh", let_in.login, "hostname; id -un; pwd").stdout.split() == ["gpu1", "ada", "/home/ada"]


def test_both_kinds_of_address_lead_there(laptop: Client, let_in: User) -> None:
    for address in let_in.host.addresses:
        assert laptop.run("ssh", f"ada@{address}", "hostname").stdout == "gpu1\n"


def test_the_right_password_opens_the_door_and_no_other(laptop: Client, ada: User) -> None:
    assert _with_password(laptop, ada, PASSWORD) == "in\n"
    with pytest.raises(CommandFailed, match="Permission denied"):
        _with_password(laptop, ada, PASSWORD + "x")


def test_an_account_without_a_password_has_none(laptop: Client, gpu1: Host) -> None:
    bob = gpu1.user("bob")
    with pytest.raises(CommandFailed, match="Permission denied"):
        _with_password(laptop, bob, "")
    bob.authorize(laptop.key())
    assert laptop.run("ssh", bob.login, "id -un").stdout == "bob\n"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash", "/usr/bin/zsh", "/usr/bin/fish", "/bin/tcsh"])
def test_people_have_their_own_shells(laptop: Client, gpu1: Host, shell: str) -> None:
    if not Path(shell).exists():
        pytest.skip(f"NOT TESTED: there is no {shell} here")
    eve = gpu1.user("eve", shell=shell)
    eve.authorize(laptop.key())
    with _ssh(laptop, eve, "cat; true") as session:
        eventually(lambda: any(Path(process.argv[0]).name == Path(shell).name for process in eve.processes()))
        session.communicate(b"", timeout=60)


def test_shell_files_and_banners_speak(laptop: Client, let_in: User) -> None:
    let_in.write(".bashrc", "echo good morning\n")
    let_in.host.configure(banner="No trespassing\n")
    done = laptop.run("ssh", let_in.login, "echo said")
    assert done.stdout == "good morning\nsaid\n"
    assert "No trespassing" in done.stderr


def test_keys_passwords_and_sftp_can_be_refused(laptop: Client, let_in: User) -> None:
    gpu1 = let_in.host
    assert laptop.run("sftp", let_in.login, stdin="pwd\n").stdout.endswith("/home/ada\n")
    gpu1.configure(sftp=False, passwords=False)
    with pytest.raises(CommandFailed, match="ubsystem"):
        laptop.run("sftp", let_in.login, stdin="pwd\n")
    with pytest.raises(CommandFailed, match="Permission denied"):
        _with_password(laptop, let_in, PASSWORD)
    gpu1.configure(keys=False, extra=["MaxSessions 1"])
    with pytest.raises(CommandFailed, match="Permission denied"):
        laptop.run("ssh", "-oBatchMode=yes", let_in.login, "true")
    assert _with_password(laptop, let_in, PASSWORD) == "in\n"


def test_an_agent_opens_the_door(laptop: Client, ada: User, tmp_path: Path) -> None:
    key = laptop.key("other")
    ada.authorize(key)
    with pytest.raises(CommandFailed, match="Permission denied"):
        laptop.run("ssh", "-oBatchMode=yes", ada.login, "true")
    laptop.agent(key)
    key.unlink()
    assert laptop.run("ssh", ada.login, "echo in").stdout == "in\n"


def test_the_clients_own_configuration_counts(laptop: Client, let_in: User) -> None:
    laptop.config(f"Host box\n  HostName {let_in.host.hostname}\n  User ada\n")
    assert laptop.run("ssh", "box", "hostname").stdout == "gpu1\n"


def test_one_host_leads_to_another(lab: Lab, laptop: Client, let_in: User) -> None:
    far = lab["gpu2"].user("ada")
    far.authorize(laptop.home / ".ssh/id_ed25519")
    assert laptop.run("ssh", "-J", let_in.login, far.login, "hostname").stdout == "gpu2\n"


def test_hosts_share_nothing_but_programs(lab: Lab, gpu1: Host, ada: User) -> None:
    gpu2 = lab["gpu2"]
    for folder in ("/home", "/tmp", "/var/tmp", "/run", "/dev/shm", "/etc", "/usr/bin"):
        place = f"{folder}/of-{gpu1.boot_id}"
        gpu1.path(place).write_text("mine")
        assert not gpu2.path(place).exists()
        assert not Path(place).exists()
        gpu1.path(place).unlink()
    assert gpu1.boot_id != gpu2.boot_id
    assert gpu1.fingerprint() != gpu2.fingerprint()
    assert not list(gpu1.path(Path(__file__).parent).glob("*"))
    assert gpu1.run("sh", "-c", "echo $$").stdout.strip() != str(os.getpid())
    assert {process.pid for process in gpu1.processes()} >= {1}
    assert not ada.processes()


def test_a_dropped_stream_goes_on_after_healing(lab: Lab, laptop: Client, let_in: User) -> None:
    with _ssh(laptop, let_in, "cat") as session:
        assert _echoed(session, b"before\n") == b"before\n"
        lab.cut(let_in.host)
        _say(session, b"meanwhile\n")
        assert _connect(laptop, let_in.host, patience=0.3) == "timeout"
        assert not select.select([session.stdout or 0], [], [], 0)[0]
        lab.heal(let_in.host)
        assert _line(session) == b"meanwhile\n"
        assert session.communicate(b"after\n", timeout=60)[0] == b"after\n"


@pytest.mark.parametrize("one_way", ["to", "from"])
def test_link_cut_in_one_direction_times_out(lab: Lab, laptop: Client, gpu1: Host, one_way: Any) -> None:
    assert _connect(laptop, gpu1) == "connected"
    lab.cut(gpu1, one_way=one_way)
    before = _segments_heard(gpu1)
    assert _connect(laptop, gpu1, patience=0.3) == "timeout"
    assert (_segments_heard(gpu1) > before) == (one_way == "from")
    assert _connect(laptop, lab["gpu2"]) == "connected"


def test_a_reset_line_breaks_streams(lab: Lab, laptop: Client, let_in: User) -> None:
    with _ssh(laptop, let_in, "cat") as session:
        assert _echoed(session, b"before\n") == b"before\n"
        lab.cut(let_in.host, "reset")
        with suppress(BrokenPipeError):  # it may have heard already
            _say(session, b"lost\n")
        assert session.wait(timeout=60) == 255
    for address in let_in.host.addresses:
        assert _connect(laptop, address) == str(errno.ECONNREFUSED)


def test_a_host_may_be_unreachable(lab: Lab, laptop: Client, gpu1: Host) -> None:
    lab.cut(gpu1, "unreachable")
    for address in gpu1.addresses:
        assert _connect(laptop, address) == str(errno.EHOSTUNREACH)


def test_a_slow_line_is_slow(lab: Lab, laptop: Client, let_in: User) -> None:
    lab.slow(let_in.host, bytes_per_second=64_000)
    for command in ("head -c 100000 /dev/urandom", "cat >/dev/null"):
        began = time.monotonic()
        laptop.run("ssh", let_in.login, command, stdin="x" * 100_000)
        assert time.monotonic() - began > 0.8


def test_a_lossy_line_still_carries_all(lab: Lab, laptop: Client, let_in: User) -> None:
    lab.slow(let_in.host, loss=0.1)
    text = "x" * 200_000
    assert laptop.run("ssh", let_in.login, "cat", stdin=text).stdout == text


def test_a_client_may_move(laptop: Client, let_in: User) -> None:
    told = ("ssh", let_in.login, "echo $SSH_CONNECTION")
    with _ssh(laptop, let_in, "cat") as session:
        assert _echoed(session, b"before\n") == b"before\n"
        old = {laptop.address, laptop.address6}
        laptop.move()
        assert laptop.run(*told).stdout.split()[0] in {laptop.address, laptop.address6} - old


def test_another_host_may_answer_to_a_name(lab: Lab, laptop: Client, let_in: User) -> None:
    lab.name("gpu1.lab", lab["gpu2"])
    with pytest.raises(CommandFailed, match="REMOTE HOST IDENTIFICATION HAS CHANGED"):
        laptop.run("ssh", let_in.login, "true")
    lab.name("gpu1.lab")
    with pytest.raises(CommandFailed, match="resolve"):
        laptop.run("ssh", let_in.login, "true")


def test_host_keys_may_change(laptop: Client, let_in: User) -> None:
    before = let_in.host.fingerprint()
    let_in.host.new_keys()
    assert let_in.host.fingerprint() != before
    with pytest.raises(CommandFailed, match="REMOTE HOST IDENTIFICATION HAS CHANGED"):
        laptop.run("ssh", let_in.login, "true")


def test_a_reboot_ends_everything_and_keeps_the_disk(lab: Lab, laptop: Client, let_in: User) -> None:
    gpu1, boot_id = let_in.host, "/proc/sys/kernel/random/boot_id"
    let_in.write("kept", "still here")
    before = gpu1.run("cat", boot_id).stdout
    assert before.strip() == gpu1.boot_id
    with _ssh(laptop, let_in, "setsid sleep 1000 & echo begun; exec cat") as session:
        assert _line(session) == b"begun\n"
        gpu1.reboot()
        assert session.poll() is None  # it was not notified
        assert not let_in.processes()
        assert laptop.run("ssh", let_in.login, f"cat {boot_id} kept").stdout == f"{gpu1.boot_id}\nstill here"
        assert before.strip() != gpu1.boot_id
        _say(session, b"hello?\n")
        assert session.wait(timeout=60) == 255
    uptimes = [float(text.split()[0]) for text in (gpu1.run("cat", "/proc/uptime").stdout, _uptime())]
    assert uptimes[0] < uptimes[1] or not clock_since_boot()


def test_a_killed_sshd_leaves_what_was_started(laptop: Client, let_in: User) -> None:
    with _ssh(laptop, let_in, "setsid sh -c 'echo begun; exec sleep 1000' & exec cat") as session:
        assert _line(session) == b"begun\n"
        let_in.host.kill_sshd()
        assert session.wait(timeout=60) == 255
    assert _connect(laptop, let_in.host) == str(errno.ECONNREFUSED)
    eventually(lambda: ("sleep", "1000") in [process.argv for process in let_in.processes()])
    sleeper = next(process for process in let_in.processes() if process.argv == ("sleep", "1000"))
    let_in.host.start_sshd()
    assert laptop.run("ssh", let_in.login, f"kill -0 {sleeper.pid} && echo alive").stdout == "alive\n"
    let_in.host.kill(sleeper.pid, signal.SIGTERM)
    eventually(lambda: sleeper not in let_in.processes())


def test_a_new_account_finds_nothing_of_the_old(laptop: Client, let_in: User) -> None:
    laptop.run("ssh", let_in.login, "touch /tmp/left; (setsid sleep 1000 >/dev/null 2>&1 </dev/null &)")
    gpu1 = let_in.host
    again = gpu1.user("ada")
    assert again.files() == {}
    assert not gpu1.path("/tmp/left").exists()
    assert not [process for process in gpu1.processes() if process.argv[0] == "sleep"]


def test_what_a_user_has_can_be_compared(laptop: Client, let_in: User) -> None:
    before = let_in.files(), let_in.sockets(), let_in.processes()
    assert laptop.run("ssh", let_in.login, "umask 077; echo 1 >made; ln -s made link; mkdir /tmp/d").stdout == ""
    after = let_in.files()
    assert {name: after[name][:2] for name in after.keys() - before[0].keys()} == {
        "/home/ada/made": ("-", 0o600),
        "/home/ada/link": ("l", 0o777),
        "/tmp/d": ("d", 0o700),
    }
    laptop.run("ssh", let_in.login, "rm made link; rmdir /tmp/d")
    eventually(lambda: (let_in.files(), let_in.sockets(), let_in.processes()) == before)


def test_a_listening_user_is_seen(gpu1: Host, ada: User) -> None:
    assert ada.sockets() == []
    listening = (
        "import socket; s = socket.create_server(('127.0.0.1', 8080)); print(open('/proc/net/tcp').read()); s.close()"
    )
    assert ":1F90" in ada.run("python3", "-c", listening).stdout
    assert ada.sockets() == []


def test_a_secret_is_found_wherever_it_was_written(gpu1: Host, ada: User) -> None:
    assert gpu1.holding(PASSWORD.encode()) == []
    ada.write("deep/er/notes", f"it is {PASSWORD}!")
    gpu1.path("/tmp/x").write_text(PASSWORD)
    gpu1.path("/etc/x").write_text(PASSWORD)
    assert gpu1.holding(PASSWORD.encode()) == ["/etc/x", "/home/ada/deep/er/notes", "/tmp/x"]
    for place in ("/tmp/x", "/etc/x"):
        gpu1.path(place).unlink()


def test_homes_may_be_small_or_read_only(gpu1: Host) -> None:
    small, fixed = gpu1.user("small"), gpu1.user("fixed")
    small.small_home("64k")
    with pytest.raises(CommandFailed, match="No space left"):
        small.run("sh", "-c", "head -c 100000 /dev/zero >big")
    fixed.read_only_home()
    with pytest.raises(CommandFailed, match="Read-only"):
        fixed.run("touch", "x")


def test_programs_may_be_forbidden_in_tmp(gpu1: Host, ada: User) -> None:
    gpu1.remount("/tmp", "noexec")
    ada.run("cp", "/bin/true", "/tmp/true")
    with pytest.raises(CommandFailed, match="Permission denied"):
        ada.run("/tmp/true")


def test_programs_come_and_go(lab: Lab, gpu1: Host, ada: User) -> None:
    gpu1.program("/usr/local/bin/nvidia-smi", "#!/bin/sh\necho four of them\n")
    assert ada.run("nvidia-smi").stdout == "four of them\n"
    gpu1.only_python(None)
    assert ada.run("python3", check=False).returncode == 127
    lab.reset()
    ada = gpu1.user("ada")
    assert ada.run("nvidia-smi", check=False).stdout != "four of them\n"
    assert ada.run("python3", "-c", "print(1)").stdout == "1\n"


def test_an_old_python_may_be_the_only_one(gpu1: Host, ada: User) -> None:
    try:
        gpu1.only_python("3.6")
    except NoSuchPython as why:
        pytest.skip(f"NOT TESTED: {why}")
    assert ada.run("python3", "-c", "import sys, ssl; print(*sys.version_info[:2])").stdout == "3 6\n"
    assert ada.run("python3.11", check=False).returncode == 127


def test_a_proxy_counts_trips_and_takes_its_time(laptop: Client, let_in: User) -> None:
    proxy = laptop.proxy(let_in.host, delay=0.05)
    laptop.trust(let_in.host, "far.lab")
    began = time.monotonic()
    assert laptop.run("ssh", "ada@far.lab", "echo in").stdout == "in\n"
    took = time.monotonic() - began
    stats = proxy.stats()
    assert stats.connections == 1
    assert 4 <= stats.trips <= took / 0.1
    assert stats.bytes_up > 1000 < stats.bytes_down


def test_a_proxy_cuts_where_it_is_told(laptop: Client, let_in: User) -> None:
    laptop.trust(let_in.host, "far.lab")
    proxy = laptop.proxy(let_in.host, cut_after_bytes=(20_000, 30_000), seed=7)
    done = laptop.run("ssh", "ada@far.lab", "cat", stdin="x" * 100_000, check=False)
    stats = proxy.set(cut_after_bytes=None, cut_after_seconds=(0.5, 0.6))
    assert done.returncode == 255
    assert 20_000 <= stats.bytes_up + stats.bytes_down <= 30_000
    assert laptop.run("ssh", "ada@far.lab", "cat /dev/zero >/dev/null", check=False).returncode == 255
    proxy.set(cut_after_seconds=None, refuse=True)
    assert laptop.run("ssh", "ada@far.lab", "true", check=False).returncode == 255
    proxy.set(refuse=False)
    assert laptop.run("ssh", "ada@far.lab", "echo in").stdout == "in\n"
    eventually(lambda: proxy.stats()[:3] == (4, 0, 3))


def test_a_proxy_stalls_and_goes_on(laptop: Client, let_in: User) -> None:
    laptop.trust(let_in.host, "far.lab")
    proxy = laptop.proxy(let_in.host)
    with _ssh(laptop, let_in, "cat", "far.lab") as session:
        assert _echoed(session, b"before\n") == b"before\n"
        stalled = proxy.stall()
        _say(session, b"meanwhile\n")
        assert not select.select([session.stdout or 0], [], [], 0.3)[0]
        assert proxy.stats() == stalled
        proxy.go()
        assert _line(session) == b"meanwhile\n"
        proxy.cut()
        assert session.wait(timeout=60) == 255


@pytest.mark.usefixtures("running")
def test_lab_ends_with_the_process_that_made_it(tmp_path: Path) -> None:
    script = """
import json, os, signal, subprocess, sys
from pathlib import Path
from sshlab import Lab
lab = Lab(["solo"])
ada = lab["solo"].user("ada")
ada.run("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &")
laptop = lab.client(Path(sys.argv[1]))
left = laptop.popen("setsid", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE)
left.stdout.readline()
holders = [lab["solo"].held.pid, laptop.held.pid]
print(json.dumps([os.readlink(f"/proc/{pid}/ns/net") for pid in holders]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    argv = [sys.executable, "-c", script, str(tmp_path / "user")]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=False)
    networks = json.loads(done.stdout)
    assert len(set(networks)) == 2
    eventually(lambda: not _living_in(networks))


@pytest.mark.usefixtures("running")
def test_where_it_cannot_be_it_says_why() -> None:
    script = "from sshlab import Lab, Unavailable\ntry: Lab()\nexcept Unavailable as why: print(why)"
    argv = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", sys.executable, "-c", script]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert "Operation not permitted" in done.stdout


def _uptime() -> str:
    return Path("/proc/uptime").read_text()


def _with_password(laptop: Client, user: User, password: str) -> str:
    askpass = laptop.home / "askpass"
    askpass.write_text(f"#!/bin/sh\ncat {laptop.home}/password\n")
    askpass.chmod(0o700)
    (laptop.home / "password").write_text(password + "\n")
    laptop.env.update(SSH_ASKPASS=str(askpass), SSH_ASKPASS_REQUIRE="force")
    options = ("-oPubkeyAuthentication=no", "-oNumberOfPasswordPrompts=1")
    return laptop.run("ssh", *options, user.login, "echo in").stdout


@contextmanager
def _ssh(laptop: Client, user: User, command: str, host: str = "") -> Iterator[subprocess.Popen[bytes]]:
    # Without buffers: closing one whose reader is gone would try to write again, and a full one hides from select.
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "bufsize": 0,
    }
    with laptop.popen("ssh", f"{user.name}@{host or user.host.hostname}", command, **pipes) as session:
        try:
            yield session
        finally:
            session.kill()


def _say(session: subprocess.Popen[bytes], line: bytes) -> None:
    assert session.stdin is not None
    session.stdin.write(line)
    session.stdin.flush()


def _echoed(session: subprocess.Popen[bytes], line: bytes) -> bytes:
    _say(session, line)
    return _line(session)


def _line(session: subprocess.Popen[bytes]) -> bytes:
    assert session.stdout is not None
    return session.stdout.readline()


def _connect(laptop: Client, to: Host | str, patience: float = 60) -> str:
    address = to if isinstance(to, str) else to.address
    return laptop.run(sys.executable, "-c", CONNECT, address, str(patience)).stdout.strip()


def _segments_heard(host: Host) -> int:
    names, values = (line.split() for line in host.net("snmp") if line.startswith("Tcp:"))
    return int(dict(zip(names, values, strict=True))["InSegs"])


def _living_in(networks: list[str]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and alive(int(entry.name)):
            try:
                network = os.readlink(entry / "ns/net")
            except OSError:
                continue
            if network in networks:
                found.append(int(entry.name))
    return found
