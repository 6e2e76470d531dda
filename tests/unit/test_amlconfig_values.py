"""Values of aml_config files at the limits of what is accepted."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from holdfast.amlconfig import read_compute, read_runconfig
from holdfast.amlconfig.compute import is_host_key
from holdfast.amlconfig.docker_arguments import remarks
from holdfast.amlconfig.source import Source, codec, refused
from holdfast.amlconfig.types import GpuRequest
from holdfast.runner import untrusted

if TYPE_CHECKING:
    from pathlib import Path


def compute_findings(tmp_path: Path, lines: str, kind: str = "docker") -> list[str]:
    file = tmp_path / "box.compute"
    file.write_text(f"type: {kind}\nbaseDockerImage: a:b\n{lines}\n")
    return [finding.message for finding in read_compute(file)[1]]


def runconfig_findings(tmp_path: Path, text: str) -> list[tuple[int, int, str, str]]:
    file = tmp_path / "x.runconfig"
    file.write_text(text)
    return [(one.line, one.column, one.message, one.hint) for one in read_runconfig(file)[1]]


@pytest.mark.parametrize(
    ("name", "is_accepted"),
    [
        ("A", True),
        ("A.B-C", True),
        ('"a b"', True),
        ('""', False),
        ('"A=B"', False),
        ('"="', False),
        ('"A\\0B"', False),
    ],
)
def test_names_of_environment_variables(tmp_path: Path, name: str, is_accepted: bool) -> None:
    text = f"Target: local\nFramework: Python\nEnvironmentVariables:\n  {name}: x\n"
    found = runconfig_findings(tmp_path, text)
    assert [message.endswith("cannot be the name of an environment variable") for _, _, message, _ in found] == (
        [] if is_accepted else [True]
    )


@pytest.mark.parametrize("variables", ["", "\n  A: x\n  B=: x\n  C: x"])
def test_one_wrong_name_among_environment_variables_is_found(tmp_path: Path, variables: str) -> None:
    text = f"Target: local\nFramework: Python\nEnvironmentVariables:{variables}\n"
    assert len(runconfig_findings(tmp_path, text)) == bool(variables)


def test_target_is_required_and_framework_is_not(tmp_path: Path) -> None:
    [target] = runconfig_findings(tmp_path, "ArgumentVector: [train.py]\n")
    assert target[:3] == (1, 1, "the key 'Target' is missing")
    assert runconfig_findings(tmp_path, "Target: local\nFramework: PySpark\n") == []


@pytest.mark.parametrize(
    ("line", "is_accepted"),
    [
        *(("port: 1", True), ("port: 65535", True), ("port: 0", False), ("port: 65536", False)),
        *(("shmSize: 1MiB", True), ("shmSize: 1048575B", False), ("memory: 6MiB", True), ("memory: 6291455B", False)),
        *(("containerUser: root", True), ("containerUser: 1000:1000", True), ("containerUser: 1:2:3", False)),
        *(("containerUser: a:-b", False), ("containerUser: .a", False), ("containerUser: a b", False)),
        *(("network: bridge", True), ("network: my_net-1.x", True), ("network: -x", False), ("network: ä", False)),
        *(("cpus: 1.5", True), ("cpus: 0.5", True), ("cpus: 0", False)),
        *(("pythonLocation: <path>", False), ("pythonLocation: '[path]'", False)),
        *(("pythonLocation: <a", True), ("pythonLocation: '[a:b]'", True), ("pythonLocation: [path]", False)),
        *(("address: my_dsvm_ip_address", False), ("username: my_name", False), ("address: host", True)),
        *(("address: -oProxyCommand=x", False), ("address: 'a b'", False), ('username: "a\\tb"', False)),
    ],
)
def test_values_of_a_target(tmp_path: Path, line: str, is_accepted: bool) -> None:
    assert bool(compute_findings(tmp_path, line)) != is_accepted


def test_host_network_is_a_warning(tmp_path: Path) -> None:
    assert "can reach services on its localhost" in compute_findings(tmp_path, "network: host")[0]


def key_of(kind: bytes, length: int = 0) -> str:
    blob = len(kind).to_bytes(4, "big") + kind
    return base64.b64encode(blob + b"x" * (length - len(blob))).decode()


def test_host_key_names_its_own_type_and_is_short() -> None:
    assert is_host_key("ssh-ed25519", key_of(b"ssh-ed25519"))
    assert is_host_key("ssh-ed25519", key_of(b"ssh-ed25519", 19_999))
    assert not is_host_key("ssh-ed25519", key_of(b"ssh-ed25519", 20_000))
    assert not is_host_key("ssh-rsa", key_of(b"ssh-ed25519"))
    assert not is_host_key("ssh-ed2551", key_of(b"ssh-ed25519"))
    assert not is_host_key("ssh-é", key_of("ssh-é".encode()))
    assert not is_host_key("ssh-ed25519", "ä")
    assert not is_host_key("ssh-ed25519", "A")


@pytest.mark.parametrize(
    ("value", "is_accepted"),
    [
        (f"ssh-ed25519 {key_of(b'ssh-ed25519')}", True),
        (f"ssh-ed25519 {key_of(b'ssh-ed25519')} comment", False),
        ("ssh-ed25519", False),
        (f"ssh-rsa {key_of(b'ssh-ed25519')}", False),
    ],
)
def test_host_key_is_a_type_and_a_key(tmp_path: Path, value: str, is_accepted: bool) -> None:
    found = compute_findings(tmp_path, f"address: h\nhostKey: {value}", "remote")
    assert ("hostKey is not an OpenSSH public key" in found) != is_accepted


@pytest.mark.parametrize(
    ("kind", "lines", "message"),
    [
        ("remote", "", "a remote target needs an address"),
        ("remote", "address:", "address is empty: a remote target needs an address"),
        ("remotedocker", "address: h\ndockerfile: D", "baseDockerImage is ignored because dockerfile is set"),
        ("docker", "engine: docker\nbaseDockerImage: rootfs:/x", "docker cannot use a folder as a root file system"),
        ("local", "memory: 1GB", "memory applies only to containers; a local target has none"),
        ("local", "password: x", "passwords in files are not used"),
        ("local", "password: AzureMlSecret=x", "this refers to a key store that was shut down; it is not a password"),
    ],
)
def test_keys_that_do_not_go_together(tmp_path: Path, kind: str, lines: str, message: str) -> None:
    file = tmp_path / "box.compute"
    image = "" if "baseDockerImage" in lines or kind == "remote" else "baseDockerImage: a:b\n"
    file.write_text(f"type: {kind}\n{image}{lines}\n")
    assert message in [finding.message for finding in read_compute(file)[1]]


def test_targets_without_a_type_are_known_by_their_flags(tmp_path: Path) -> None:
    file = tmp_path / "box.compute"
    for text, kind in (
        ("cluster: true\naddress: h", "cluster"),
        ("native: true\naddress: h", "remote"),
        ("native: true", "local"),
        ("native: false\naddress: h\nbaseDockerImage: a:b", "virtualmachine"),
        ("cluster: false\naddress: h\nbaseDockerImage: a:b", "virtualmachine"),
        ("type: LOCAL", "local"),
        ("type: Other", "Other"),
    ):
        file.write_text(f"{text}\n")
        target, findings = read_compute(file)
        assert target is not None, findings
        assert target.type == kind
    file.write_text("address: h\n")
    target, findings = read_compute(file)
    assert target is None
    assert (findings[0].line, findings[0].column, findings[0].message) == (1, 1, "the key 'type' is missing")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Target: a\n<<<<<<< HEAD\n", (2, 1, "a git conflict marker")),
        ("Target: a\nDescription: b\n>>>>>>> x\n", (3, 1, "a git conflict marker")),
        ("Target: a\nDescription: 'x <<<<<<< y'\n", None),
        ("Target: a\nDescription: 'x >>>>>>> y'\n", None),
    ],
)
def test_conflict_markers_are_found_at_the_start_of_lines(
    tmp_path: Path, text: str, expected: tuple[int, int, str] | None
) -> None:
    found = [one[:3] for one in runconfig_findings(tmp_path, f"{text}Framework: Python\n")]
    assert found == ([] if expected is None else [expected])


def test_encoding_is_known_by_its_mark() -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
        data = "\ufeffx".encode(encoding)
        name, mark = codec(data)
        assert (name, data[len(mark) :].decode(name)) == (encoding, "x")
    assert codec(b"x") == ("utf-8", b"")


def test_wrong_bytes_are_found_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "x.runconfig"
    file.write_bytes(b"Target: a\nabc\xff\n")
    [finding] = read_runconfig(file)[1]
    assert (finding.line, finding.column, finding.message) == (2, 4, "this file is not UTF-8 text")
    file.write_bytes("\ufeffTarget".encode("utf-16-le") + b"\x00\xd8x\0")
    assert read_runconfig(file)[1][0].message == "this file is not UTF-16 text"


@pytest.mark.parametrize(
    ("text", "target", "places"),
    [
        ("Target:\tlocal\t\nFramework: Python\n", "local", []),
        ("Target:local\nFramework: Python\n", "local", [(1, 8, "no space after the colon")]),
        ("\tTarget: local\nFramework: Python\n", "local", [(1, 1, "a tab is used as indentation")]),
        ("Target: local\n...\nFramework: Python\n", "local", [(2, 1, "a line of three dots")]),
        ("---\nTarget: local\nFramework: Python\n", "local", []),
        ("\t# comment\nTarget: local\nFramework: Python\n", "local", []),
    ],
)
def test_slips_are_mended_and_named(tmp_path: Path, text: str, target: str, places: list[tuple[int, int, str]]) -> None:
    file = tmp_path / "x.runconfig"
    file.write_text(text)
    config, findings = read_runconfig(file)
    assert config is not None, findings
    assert config.target == target
    assert [(one.line, one.column) for one in findings] == [place[:2] for place in places]
    for finding, (_, _, message) in zip(findings, places, strict=True):
        assert finding.message.startswith(message)


def test_values_of_maps_are_mended_too(tmp_path: Path) -> None:
    file = tmp_path / "x.runconfig"
    text = "Target: local\nFramework: Python\nEnvironmentVariables:\n\tA: 1\n  B:2\n  C: http://x\n"
    file.write_text(text.replace("\t", "  "))
    config, findings = read_runconfig(file)
    assert config is not None
    assert config.environment_variables == {"A": "1", "B": "2", "C": "http://x"}
    assert [(one.line, one.column) for one in findings] == [(5, 5)]


@pytest.mark.parametrize("sign", ["\n", "'a:b'\n", "a,b\n"])
def test_file_has_at_most_twenty_thousand_lines_colons_and_commas(tmp_path: Path, sign: str) -> None:
    def message(more: int) -> str:
        file = tmp_path / "x.runconfig"
        head = "Target: local\nFramework: Python\n"
        repeated = f"# {sign}" * (9_000 if len(sign) > 1 else 18_000)
        missing = 20_000 + more - sum((head + repeated).count(one) for one in "\n:,")
        file.write_text(head + repeated + "\n" * missing)
        return " ".join(finding.message for finding in read_runconfig(file)[1])

    assert message(0) == ""
    assert message(1) == "this file is too long for a configuration file"


def test_reasons_for_refused_files_have_advice() -> None:
    outside = refused(untrusted.OutsideError("x"), 1 << 20, "or delete it")
    assert outside[1] == "copy the link's target into the project; or delete it"
    assert refused(untrusted.OutsideError("x"), 1 << 20)[1] == "copy the link's target into the project"
    assert refused(untrusted.TooLargeError("x"), 3 << 20)[0] == "this file is too large: at most 3 MiB are read"
    assert "a device, FIFO or socket" in refused(untrusted.SpecialFileError("x"), 1)[0]
    assert refused(untrusted.Untrusted("why\n"), 1)[0] == "this file cannot be used: why?"


def test_file_without_content_has_no_entries(tmp_path: Path) -> None:
    for text in ("", "\n\n", "# only a comment\n", "---\n", "...\n"):
        file = tmp_path / "x.yml"
        file.write_text(text)
        root = Source(str(file), "x.yml", ()).root
        assert root is not None
        assert root.entries == []


def read_text(tmp_path: Path, lines: str) -> tuple[object, list[tuple[int, int, str, str]]]:
    file = tmp_path / "x.runconfig"
    file.write_text(f"Target: local\nFramework: Python\n{lines}\n")
    config, findings = read_runconfig(file)
    return config, [(one.line, one.column, one.message, one.hint) for one in findings]


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("TrackedRun: Yes", "tracked_run", True),
        ("TrackedRun: off", "tracked_run", False),
        ("timeout: 90", "timeout", 90.0),
        ("waitForGpu: 0", "wait_for_gpu", 0.0),
        ("maxLogSize: 1kB", "max_log_size", 1000),
        ("gpus: 0", "gpus", GpuRequest(0)),
        ("gpus: ALL", "gpus", GpuRequest("all")),
        ("gpus: 1024", "gpus", GpuRequest(1024)),
        ("gpus: {memory: 1GB, shared: true}", "gpus", GpuRequest(1, 10**9, None, True)),
        ("gpus: {count: 2, name: L4}", "gpus", GpuRequest(2, None, "L4", False)),
        ("links: [a, ./b/, c\\d, .]", "links", ("a", "b", "c/d", ".")),
        ("fetchOutputs: ALL", "fetch_outputs", "all"),
        ("Description: '~'", "description", "~"),
        ("Description: ~", "description", None),
        ("Description: '  '", "description", None),
    ],
)
def test_values_of_a_run_configuration(tmp_path: Path, line: str, name: str, value: object) -> None:
    config, findings = read_text(tmp_path, line)
    assert findings == []
    assert getattr(config, name) == value


@pytest.mark.parametrize(
    ("line", "place", "message", "hint"),
    [
        ("TrackedRun: maybe", (3, 13), "TrackedRun must be true or false", "write TrackedRun: true"),
        ("timeout: 0", (3, 10), "'0' is not a duration", "write timeout: 30s"),
        ("grace: soon", (3, 8), "'soon' is not a duration", "write grace: 30s"),
        ("maxLogSize: much", (3, 13), "'much' is not a size", "write maxLogSize: 500MB"),
        ("gpus: 1025", (3, 7), "gpus is a number from 0 to 1024", "write gpus: 1"),
        ("gpus: 00008", (3, 7), "gpus is a number from 0 to 1024", "write gpus: 1"),
        ("gpus: -1", (3, 7), "gpus is a number from 0 to 1024", "write gpus: 1"),
        ("links: [../a]", (3, 8), "../a is outside the project", "name a path inside"),
        ("links: [/a]", (3, 8), "/a is outside the project", "name a path inside"),
        ("links: ['~/a']", (3, 8), "~/a is outside the project", "name a path inside"),
        ("links: ['C:a']", (3, 8), "C:a is outside the project", "name a path inside"),
        ("links: [[a]]", (3, 9), "links takes a list of plain values; this is a list", "write links:"),
        ("links: a", (3, 8), "links takes a list; this is one value", "write links:"),
        ("Description: [a]", (3, 14), "Description takes one value; this is a list", "write Description: value"),
        ("Description:\n  a: b", (4, 3), "Description takes one value; this is a map", "write Description: value"),
        ("EnvironmentVariables: a", (3, 23), "EnvironmentVariables takes a map; this is one value", "write Env"),
        ("EnvironmentVariables:\n  A: [b]", (4, 6), "A must be one value", "put it in quotes"),
        ("fetchOutputs: some", (3, 15), "fetchOutputs cannot be 'some'", "write fetchOutputs: all or small or none"),
        ("Description: ' a'", (3, 14), "spaces inside the quotes are not part of the value", "write Description: a"),
        ("Description: 'a '", (3, 14), "spaces inside the quotes are not part of the value", "write Description: a"),
        ("description: a", (3, 1), "'description' is read as 'Description'", "write Description"),
        ("Descriptio: a", (3, 1), "unknown key 'Descriptio' has no effect", "did you mean Description?"),
        ("zzz: a", (3, 1), "unknown key 'zzz' has no effect", ""),
        ("grace: 1\ngrace: 2", (4, 1), "grace is set on line 3 and again on line 4", "delete line 3"),
    ],
)
def test_findings_point_at_the_value(
    tmp_path: Path, line: str, place: tuple[int, int], message: str, hint: str
) -> None:
    [finding] = read_text(tmp_path, line)[1]
    assert finding[:2] == place
    assert finding[2].startswith(message)
    assert finding[3].startswith(hint)


def test_unknown_keys_are_named_up_to_a_number(tmp_path: Path) -> None:
    findings = read_text(tmp_path, "\n".join(f"zzz{number}: a" for number in range(40)))[1]
    named = len(findings) - 1
    assert findings[-1][:3] == (3 + named, 1, f"{40 - named} more unknown keys have no effect")
    assert [finding[0] for finding in findings[:-1]] == list(range(3, 3 + named))
    exactly = read_text(tmp_path, "\n".join(f"zzz{number}: a" for number in range(named)))[1]
    assert len(exactly) == named
    assert named == 20


def test_docker_arguments_are_taken_apart(tmp_path: Path) -> None:
    file = tmp_path / "box.compute"
    for text, words in (
        ("'--ulimit nofile=1 --dns=1.1.1.1'", ("--ulimit", "nofile=1", "--dns=1.1.1.1")),
        ("[--ulimit nofile=1, --dns=1.1.1.1]", ("--ulimit", "nofile=1", "--dns=1.1.1.1")),
        ("[--ulimit, nofile=1]", ("--ulimit", "nofile=1")),
    ):
        file.write_text(f"type: docker\nbaseDockerImage: a:b\ndockerArguments: {text}\n")
        target, findings = read_compute(file)
        assert target is not None, findings
        assert target.docker_arguments == words
    file.write_text('type: docker\nbaseDockerImage: a:b\ndockerArguments: "\'--ipc=private"\n')
    [finding] = read_compute(file)[1]
    assert finding.message == "a quote in dockerArguments is not closed"


def test_json_files_get_json_hints(tmp_path: Path) -> None:
    [target] = runconfig_findings(tmp_path, '{"Framework": "Python"}')
    assert target[3] == 'add the line "Target": "local",'


def test_missing_address_is_reported_at_the_type(tmp_path: Path) -> None:
    file = tmp_path / "box.compute"
    file.write_text("nativeSharedDirectory: x\ntype: remote\n")
    [finding] = read_compute(file)[1]
    assert (finding.line, finding.message) == (2, "a remote target needs an address")


@pytest.mark.parametrize(
    ("argument", "has_weight"),
    [
        ("--device=/dev/sda", True),
        ("--annotation=/dev/sda", False),
        ("--tmpfs=/dev/sda", False),
        ("--device-cgroup-rule=b 8:* r", True),
        ("--device-cgroup-rule=c 8:* r", False),
        ("--security-opt=seccomp=unconfined", True),
        ("--security-opt=label:disable", True),
        ("--security-opt=no-new-privileges", False),
        ("--cap-add=CAP_SYS_ADMIN", True),
        ("--cap-add=NET_BIND_SERVICE", False),
        ("--pid=host", True),
        ("--hostname=host", False),
        ("--privileged", True),
        ("--privileged=false", False),
        ("--volume=/:/host", True),
        ("--volume=//:/host", True),
        ("--volume=data:/data", False),
        ("--volume=/var/run/docker.sock:/s", True),
        ("--mount=type=bind,source=/etc,target=/x", True),
        ("--mount=type=bind,src=/srv/data,target=/x", False),
    ],
)
def test_arguments_that_give_a_script_the_machine_have_a_warning(argument: str, has_weight: bool) -> None:
    assert any(remark.severity == "warning" for remark in remarks((argument,), None)) == has_weight
