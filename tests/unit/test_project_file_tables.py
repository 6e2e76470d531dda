"""Each key of a project's files with values at and beside its limits, and every way to write YAML, as tables."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from goldens import answered, assert_table
from holdfast.amlconfig import read_compute, read_runconfig, render
from holdfast.amlconfig.check import check_project
from holdfast.amlconfig.compute import hdinsight_cluster, is_host_key
from holdfast.amlconfig.dependencies import read_conda, read_spark
from holdfast.amlconfig.docker_arguments import options, remarks
from holdfast.amlconfig.edit import edited
from holdfast.amlconfig.emit import entry_lines, scalar
from holdfast.amlconfig.nodes import Mapping, Scalar, Sequence
from holdfast.amlconfig.source import Source, refused
from holdfast.amlconfig.successor import in_container
from holdfast.errors import HoldfastError
from holdfast.runner import untrusted
from holdfast.runner.ignore_patterns import Patterns, parse
from holdfast.snapshot import ignore

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.amlconfig.nodes import Node
    from holdfast.amlconfig.types import Finding
    from holdfast.record import Record


def given(value: Record | None) -> str:
    """The fields that the file has said something about."""
    return "nothing" if value is None else str({name: field for name, field in value._asdict().items() if field})


def told(findings: list[Finding]) -> str:
    return render(findings).replace("\n    ", " | ").replace("\n", " / ")


DOCKER = "type: docker\nbaseDockerImage: python:3.11\n"
REMOTE = "type: remote\naddress: box\n"
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1KcZ4VJr0ZcQ0nR8rJQ5xPZ0mB6cV4e1l0T4jzWk2d"


def test_keys_of_targets(tmp_path: Path) -> None:
    files = [
        *(
            f"{DOCKER}{line}\n"
            for line in (
                "shmSize: 1048575",
                "shmSize: 1048576",
                "shmSize: 1Ki",
                "memory: 6291455",
                "memory: 6291456",
                "cpus: 0",
                "cpus: 1.5",
                "cpus: .5",
                "cpus: 1.",
                "cpus: 12345678",
                "cpus: 123456789",
                "cpus: x",
            )
        ),
        *(
            f"{DOCKER}{line}\n"
            for line in (
                "network: host",
                "network: a-b",
                "network: -a",
                "network: .a",
                "network: é",
                "containerUser: a",
                "containerUser: 0:0",
                "containerUser: a:b:c",
                "containerUser: ':'",
                "containerUser: -a",
            )
        ),
        *(
            f"{DOCKER}{line}\n"
            for line in (
                "gpus: 0",
                "gpus: 1024",
                "gpus: 1025",
                "gpus: ALL",
                "gpus: -1",
                "gpus: 12345",
                "gpus: {count: 2, memory: 24GB, name: A100, shared: yes}",
                "gpus: {}",
                "gpus: {counts: 1}",
                "gpus: []",
                "gpus: {memory: x}",
            )
        ),
        *(
            f"{DOCKER}{line}\n"
            for line in (
                "engine: Podman",
                "engine: lxc",
                "dockerfile: Dockerfile",
                "dockerfile: ../x",
                "dockerArguments: --pid host",
                "dockerArguments: [--pid, host]",
                "sharedVolumes: maybe",
                "nvidiaDocker: ON",
                "sharedData: data",
                "sharedData: ~/data",
                "sharedData: /srv",
            )
        ),
        *(
            f"{REMOTE}{line}\n"
            for line in (
                "port: 0",
                "port: 1",
                "port: 65535",
                "port: 65536",
                "port: x",
                "port: 0000000022",
                "username: -x",
                "username: a b",
                "username: ' a'",
                "username: <my_name>",
                "username: my_name",
                "username: '[x]'",
                "username: [x]",
                "username: [x, y]",
                "username: '[::1]'",
            )
        ),
        *(
            f"{REMOTE}{line}\n"
            for line in (
                f"hostKey: ssh-ed25519 {KEY}",
                "hostKey: ssh-ed25519",
                f"hostKey: ssh-rsa {KEY}",
                f"hostKey: ssh-ed25519 {KEY} me",
                "hostKey: a b",
                "password: x",
                "password: AzureMlSecret=1",
                "password:",
                "yarnDeployMode: client",
                "yarnDeployMode: x",
            )
        ),
        *(
            f"{REMOTE}{line}\n"
            for line in (
                "stopWhenIdleMinutes: 0",
                "stopWhenIdleMinutes: 0.5",
                "pricePerHour: 3.06",
                "pricePerHour: -1",
                "startCommand: x",
                "root: /srv",
                "memory: 1GB",
                "cpus: 2",
                "environment: project",
                "environment: active",
                "environment: /opt/x",
                "environment: x",
                "environment: ~/e",
                "environment: .venv",
                "environment: PROJECT",
            )
        ),
        *(
            f"type: local\n{line}\n"
            for line in (
                "environment: active",
                "environment: project\nuserManagedEnvironment: true",
                "environment: active\nuserManagedEnvironment: false",
                "environment: project\nuserManagedEnvironment: false",
                "environment: a/b",
                "memory: 1GB",
                "network: host",
                "odd: 1",
                "Address: x",
                "adress: x",
            )
        ),
        *(
            "",
            "native: true\n",
            "native: true\naddress: x\n",
            "cluster: true\n",
            "cluster: false\n",
            "native: false\naddress: x\nbaseDockerImage: a\n",
            "type: Remote\n",
            "type: docker\n",
            "type: remotedocker\naddress:\n",
            "type: odd\n",
            "address: x\n",
            "{}",
            '{"address": "x"}',
            "type: local\ntype: docker\n",
        ),
        *(
            "type: cluster\naddress: spark://a:7077\n",
            "type: cluster\naddress: spark://a\n",
            "type: cluster\naddress: x.azurehdinsight.net\n",
            "type: cluster\naddress: sc://a\n",
            "type: cluster\n",
            "type: docker\nbaseDockerImage: rootfs:/a\nengine: docker\n",
            "type: docker\nbaseDockerImage: A B\n",
        ),
        "type: local\n" + "".join(f"key{number}: 1\n" for number in range(20)),
        "type: local\n" + "".join(f"key{number}: 1\n" for number in range(21)),
        f"type: local\n{'k' * 59}e: 1\npythonLocatio: x\n{'pythonLocation' + 'x' * 60}: 1\n",
        "type: local\npythonLocation: [a]\nroot: {a: b}\nport: [1]\n",
    ]
    rows = []
    for text in files:
        (tmp_path / "box.compute").write_text(text)
        target, findings = read_compute(tmp_path / "box.compute", "box.compute")
        rows.append(f"{text[:120]!r}: {given(target)} {told(findings)} {target and hdinsight_cluster(target)}")
    rows += [
        answered(is_host_key, *words)
        for words in (
            ("ssh-ed25519", KEY),
            ("ssh-rsa", KEY),
            ("é", KEY),
            ("ssh-ed25519", "é"),
            ("", ""),
            ("ssh-ed25519", "x"),
        )
    ]
    assert_table("targets", rows)


def test_options_of_containers() -> None:
    lines = (
        *(
            "--pid host",
            "--pid=host",
            "--ipc host",
            "--uts host",
            "--userns host",
            "--cgroupns host",
            "--pid private",
            "--privileged",
            "--privileged=true",
            "--privileged=false",
            "--privileged=x",
            "--privileged x",
        ),
        *(
            "--cap-add ALL",
            "--cap-add cap_sys_admin",
            "--cap-add NET_ADMIN",
            "--security-opt seccomp=unconfined",
            "--security-opt label:disable",
            "--security-opt x",
            "--device /dev/sda1",
            "--device /dev/null",
            "--device /dev/mem",
        ),
        *(
            "--device-cgroup-rule a",
            "--device-cgroup-rule ' b 8:*'",
            "--device-cgroup-rule c",
            "-v /:/host",
            "-v/etc:/e",
            "-v=/a:/b",
            "--volume //run//docker.sock:/x",
            "-v rel:/x",
            "-v /var/lib/x:/y",
            "--mount type=bind,src=/var,dst=/x",
        ),
        *(
            "--mount type=bind,source=/home",
            "--mount x",
            "-x",
            "-",
            "--",
            "x",
            "--odd",
            "--ulimits",
            "--ulimit",
            "--ulimit --init",
            "--ulimit nofile=1",
            "--name x",
            "-d",
            "-e A=1",
            "--env=SECRET=1",
            "--gpus all",
            "--net host",
            "-m 1g",
            "--cgroups x",
        ),
        *(
            "--link x",
            "--http-proxy",
            "--no-hosts=0",
            "--read-only",
            "--read-only=T",
            "-h name",
            "-hname",
            "--cpu-shares",
            "-c",
            "-c 5 -p 80",
            "--init x --tmpfs /t",
            "--detach --tmpfs /t",
            "--tmpfs= ",
            "a\x07",
        ),
    )
    rows = []
    for line in lines:
        words = line.replace("' b 8:*'", "\0").split(" ")
        words = [" b 8:*" if word == "\0" else word for word in words]
        for engine in (None, "docker", "podman"):
            found = [(row.severity, row.word, row.message, row.hint) for row in remarks(words, engine)]
            rows.append(f"{line!r} {engine}: {found}")
        rows.append(f"{line!r}: {options(words)}")
    assert_table("container-options", dict.fromkeys(rows))


def test_keys_of_run_configurations(tmp_path: Path) -> None:
    lines = (
        *(
            "",
            "Framework: python",
            "Framework: pyspark",
            "Framework: R",
            "ArgumentVector: [a, 1, true]",
            "ArgumentVector: a",
            "ArgumentVector: [[a]]",
            "ArgumentVector:\n- a\n- {b: c}",
            "EnvironmentVariables: {A: 1, B: }",
            "EnvironmentVariables:\n  A=B: 1",
        ),
        *(
            'EnvironmentVariables:\n  "": 1',
            'EnvironmentVariables:\n  "a\\0": 1',
            "EnvironmentVariables: {A: [1]}",
            "EnvironmentVariables: [a]",
            "CondaFile: a.yml",
            "CondaDependenciesFile: a.yml\nCondaFile: b.yml",
            "CondaDependenciesFile: ../a.yml",
            "CondaDependenciesFile: C:/a",
            "CondaDependenciesFile: ~/a",
            r"CondaDependenciesFile: a\b.yml",
            "CondaDependenciesFile: ./",
        ),
        *(
            "timeout: 4h",
            "timeout: 0",
            "timeout: x",
            "grace: 30s",
            "fetchOutputs: All",
            "fetchOutputs: x",
            "maxLogSize: 1",
            "maxLogSize: x",
            "gpus: 2",
            "requireGpu: yes",
            "gpuGrace: 10m",
            "waitForGpu: 0",
            "waitForGpu: 1h",
            "waitForGpu: -1",
            "scalars: on",
            "keepLimit: 0",
            "keepLimit: 5GB",
            "keepFiles: 0",
            "keepFiles: 100000000",
            "keepFiles: 100000001",
            "capture: off",
        ),
        *(
            "links: [a, b/c]",
            "links: [/a]",
            "links: a",
            "links: [..]",
            "data: a/b/",
            "data: [a, b/a]",
            "data: {x: a, y: b}",
            "data: {x-1: a, x_1: b}",
            "data: {.x: a}",
            "data: {-x: a}",
            "data: {é: a}",
            f"data: {{{'x' * 100}: a}}",
            f"data: {{{'x' * 101}: a}}",
            "data: {path: a}",
            "data: {path_on_target: /a}",
            "data: {path_on_target: ~/a}",
        ),
        *(
            "data: {path_on_target: a}",
            "data: {path: a, path_on_target: /b}",
            "data: {x: {path: a}}",
            "data: {x: {path_on_target: /a/b, odd: 1}}",
            "data:\n- a\n- path: b",
            "data: {x: }",
            "data: [null]",
            "data: [[a]]",
            "data: {x: '', y: ' '}",
            "data: {x: a, x: b}",
            "data:",
            "Description: a b",
            "UseSampling: 1",
            "DataSourceSettings: {a: {b: [1]}}",
            "DataSourceSettings: 5",
            "Odd: 1",
            "target: x",
        ),
    )
    rows = []
    for line in lines:
        (tmp_path / "lab.runconfig").write_text(f"Target: local\n{line}\n")
        config, findings = read_runconfig(tmp_path / "lab.runconfig", "lab.runconfig")
        rows.append(f"{line!r}: {given(config)} {told(findings)}")
    for text in ("", "Framework: Python\n", "Target:\n", '{"Target": "a"}', "[a]", "a", "- a\n"):
        (tmp_path / "lab.runconfig").write_text(text)
        config, findings = read_runconfig(tmp_path / "lab.runconfig", "lab.runconfig")
        rows.append(f"{text!r}: {given(config)} {told(findings)}")
    assert_table("run-configurations", rows)


def test_run_configurations_of_2018(tmp_path: Path) -> None:
    base = "script: train.py\ntarget: local\n"
    docker = "environment:\n  docker:\n    enabled: true\n"
    flags = "    gpuSupport: true\n    sharedVolumes: false\n"
    texts = (
        *(
            base,
            "script:\n",
            f"{base}arguments: [a, 1]\n",
            f"{base}framework: PySpark\nmaxRunDurationSeconds: 60\nprepareEnvironment: false\n",
            f"{base}history: {{a: 1}}\nhdi: x\n",
        ),
        *(
            f"{base}environment:\n  environmentVariables: {{A: 1}}\n",
            f"{base}environment:\n  python:\n    condaDependenciesFile: a.yml\n    interpreterPath: x\n",
            f"{base}environment:\n  docker:\n    enabled: false\n    baseImage: a\n",
            f"{base}{docker}",
            f"{base}{docker}    baseImage: a/b:1\n",
        ),
        *(
            f"{base}{docker}    baseImage: a\n    shmSize: {size}\n    arguments: [--pid, host]\n{flags}"
            for size in ("2g", "1", "512m", "64kB", "x", "g")
        ),
        *(
            f"{base}{docker}    baseImage: a\n    baseImageRegistry:\n      address: {address}\n      {line}\n"
            for address, line in (("r.org", ""), ("r.org/", "username: x"), ("a", "password: x"), ("", "username:"))
        ),
        f"{base}{docker}    baseImage: r.org/a\n    baseImageRegistry:\n      address: r.org\n",
    )
    (tmp_path / "box.compute").write_text(DOCKER + "shmSize: 1GB\n")
    (tmp_path / "here.compute").write_text("type: local\n")
    targets = [read_compute(tmp_path / f"{name}.compute")[0] for name in ("box", "here")]
    rows = []
    for text in texts:
        (tmp_path / "lab.runconfig").write_text(text)
        config, findings = read_runconfig(tmp_path / "lab.runconfig", "lab.runconfig")
        rows.append(f"{text!r}: {given(config)} {told(findings)}")
        for target in targets if config is not None else ():
            assert target is not None
            assert config is not None
            try:
                rows.append(f"{target.name}: {given(in_container(target, config))}")
            except HoldfastError as error:
                rows.append(f"{target.name}: {error} {error.hint}")
    assert_table("run-configurations-2018", rows)


def test_files_of_dependencies(tmp_path: Path) -> None:
    conda = (
        *(
            "",
            "name: x\n",
            "dependencies: [a, io, '', 5]\n",
            "dependencies:\n- a\n- pip: [b, json]\n- pip:\n  - c\n",
            "dependencies:\n- pip: a\n",
            "dependencies: {a: b}\n",
            "dependencies:\n- {pip: [a], x: 1}\n",
            "channels: a\n",
            "chanels: [a]\n",
            "prefix: /x\nvariables: {A: 1}\n",
            "dependencies:\n- [a]\n- pip:\n",
        ),
    )
    spark = (
        *(
            "",
            "configuration:\n  spark.a: 1\n  b: 2\n  spark.c:\n",
            "configuration: [a]\n",
            "configuration:\n  spark.a: [1]\n",
            "repositories: [https://a]\n",
            "repositories: a\n",
            "packages:\n- group: a\n  artifact: b\n  version: 1\n",
            "packages:\n- group: a\n  artifact:\n  odd: 1\n",
            "packages: [a]\n",
            "packages: a\n",
            "version: 2\nodd: 1\n",
        ),
    )
    rows = []
    for name, texts in (("conda", conda), ("spark", spark)):
        for text in texts:
            (tmp_path / "x.yml").write_text(text)
            value, findings = (read_conda if name == "conda" else read_spark)(tmp_path / "x.yml", "x.yml")
            rows.append(f"{name} {text!r}: {given(value)} {told(findings)}")
    assert_table("dependency-files", rows)


TEXTS = (
    *(
        "a: 1",
        "a:1",
        "Target:local",
        "a: 'b'",
        'a: "b"',
        'a: "b\\n"',
        "a: 'b''c'",
        "a: b # c",
        "a: b#c",
        "a: # c",
        "'a b': c",
        '"a": b',
        "'a' : b",
        "a : b",
        "a: b: c",
        "a:\n  b: c\n  d:\n    e: f",
        "a:\n- b\n- c: d\n  e: f\n- - g",
        "a:\n  - b\n- c",
    ),
    *(
        "a:\n b\n",
        "a: |\n  x\n  y\nb: 1",
        "a: >-\n  x\n\n  y",
        "a: &x 1",
        "a: *x",
        "a: !!str 1",
        "a: @x",
        "a: `x",
        "a: %x",
        "a: ,x",
        "a: ?x",
        "? a",
        "a: [b, c]",
        "a: [b, c",
        "a: [b c]",
        "a: [b,, c]",
        "a: [b, c,]",
        "a: {b: c, d: e}",
        "a: {b: c",
        "a: {b}",
        "a: [b]c",
        "a: [b] # c",
        "a: 'b",
        'a: "b',
        "a: 'b' c",
    ),
    *(
        "---\na: 1",
        "a: 1\n---\nb: 2",
        "a: 1\n...\nb: 2",
        "\ta: 1",
        "a:\n\tb: 1",
        "a: b\n\tc: d",
        "a:\t1",
        "a: 1\t",
        "\t\n# x\na: 1",
        "{}",
        "{",
        '{"a": 1}',
        '{"a": 1, "b": [1, {"c": null}]}',
        '{"a": 1 "b": 2}',
        '{"a": 1\n"b": 2}',
        '{"a": true.\n"b": 2}',
        '{"a": 5., "b": 1}',
        '{"a": "x\\ty"}',
        '{"a": [- b, - c]}',
        '{"a": [-b]}',
        '{"a": 1} x',
        '{"a": 1}\nx',
    ),
    *(
        '{"a"\n: 1}',
        "{a: 1}",
        "{a:1}",
        '{"a":1}',
        "a: [- b\n- c]",
        "- a",
        "a",
        "[a]",
        "a: 1\n b: 2",
        "  a: 1\nb: 2",
        "a: \x01",
        "# \x01\na: 1",
        "a: 1\na: 2",
        "<<<<<<< x\na: 1",
        "a: <<<<<<< b",
        "a" * 501 + ": 1",
        "a" * 500 + ": 1",
        '"C:\\dir": x',
        'a: "C:\\dir"',
        "a: \\x",
        "a: -",
        "a: - b",
        "-: a",
        "a: ''",
        "a: ~",
        "a: null",
        ": a",
        "a:: b",
        "a:b: c",
    ),
    *(
        "a: [" * 1 + "[" * 15 + "]" * 16,
        "a: " + "[" * 17 + "]" * 17,
        "\n".join("  " * depth + "a:" for depth in range(16)),
        "\n".join("  " * depth + "a:" for depth in range(17)),
        "a: 1\n\n# end\n\n",
        "a: é",
        "a: [é, 'ü']",
        "EnvironmentVariables:\n  A:b\n  B: c",
        "EnvironmentVariables:\n  http://x: 1",
        "a: {b: [c, {d: 'e'}]}\nf: g",
        "a:\n  - b: 1\n    c: 2\n  -\n    d: 3\n  -",
        "a: [b,\n c]\nd: 1",
        'a: "\\U00110000"',
    ),
)


def shape(node: Node | None) -> str:
    """The tree with the positions of every node."""
    if node is None:
        return "nothing"
    here = f"@{node.line}:{node.column}-{node.end_line}:{node.end_column}"
    if isinstance(node, Scalar):
        return f"{node.text!r}{'q' if node.quoted else ''}{here}"
    if isinstance(node, Sequence):
        return f"{'flow' if node.flow else ''}[{', '.join(map(shape, node.items))}]{here}"
    return f"{'flow' if node.flow else ''}{{{', '.join(f'{shape(k)}: {shape(v)}' for k, v in node.entries)}}}{here}"


def read(text: str) -> Source:
    return Source("x", "x", ("Target", "EnvironmentVariables"), ("EnvironmentVariables",), data=text.encode())


def test_ways_to_write_yaml() -> None:
    rows = []
    for text in TEXTS:
        source = read(text)
        assert isinstance(source.root, (Mapping, type(None)))
        rows.append(f"{text[:80]!r}: {shape(source.root)[:1500]} {told(source.findings)}")
    for data in (
        b"\xff",
        b"a: 1\nb: \xe9",
        "a: é".encode("utf-16"),
        b"\xef\xbb\xbfa: 1",
        b"\xff\xfea\x00:\x00 \x001\x00",
        b"\xfe\xff\x00a\x00:",
        b"a:\r\n- b\rc: 1",
        b"\xff\xfea",
    ):
        source = Source("x", "x", (), data=data)
        rows.append(f"{data!r}: {shape(source.root)} {told(source.findings)}")
    for sign, count in ((":", 20_000), (":", 20_001), (",", 20_001), ("\n", 20_001)):
        rows.append(f"{count} {sign!r}: {told(Source('x', 'x', (), data=b'a' + (sign * count).encode()).findings)}")
    long = "a: |\n" + "  x\n" * ((1 << 17) // 3 - 2)
    rows += [f"{len(text)}: {told(read(text).findings)}" for text in (long, long + "  yyyy\n" * 9)]
    assert_table("yaml", rows)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "aml_config").mkdir()
    (tmp_path / "outside").write_text("a: 1")
    folder = tmp_path / "aml_config"
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("../outside")
    (folder / "far").symlink_to("/etc/hostname")
    (folder / "large").write_text("#" * ((1 << 20) + 1))
    (folder / "limit").write_text("#" * (1 << 20))
    rows = []
    for name in ("fifo", "folder", "link", "far", "large", "limit", "gone"):
        source = Source(str(folder / name), name, ())
        rows.append(f"{name}: {shape(source.root)} {told(source.findings)}")
    for path, shown in (
        (tmp_path / "far", str(tmp_path / "far")),
        (tmp_path / "sub" / "far", "sub/far"),
        (tmp_path / "sub" / "far", "/sub/far"),
        (tmp_path / "sub" / "far", "far"),
    ):
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to("/etc/hostname")
        rows.append(f"{path.name} as {shown}: {told(Source(str(path), shown, ()).findings)[:100]}")
    rows += [
        f"{refused(error('x'), 5 << 20, advice)}"
        for error in (untrusted.Untrusted, untrusted.OutsideError, untrusted.SpecialFileError, untrusted.TooLargeError)
        for advice in ("", "more")
    ]
    rows.append(told(check_project(tmp_path)))
    assert_table("unreadable", [row.replace(str(tmp_path), "ROOT") for row in rows])


def test_changes_of_one_value() -> None:
    texts = (
        *(
            "a: 1\nc: 'x'  # note\nd: \"y\"\n",
            "a: 1\r\nb:\r\n- x\r\n- y\r\nd: 2",
            "a:\n  b: 1\n  c: 2\n\n# end\n",
            "",
            "# only\n",
            "{}",
            '{"a": 1}',
            '{"a": 1, "c": [2]}',
            '{\n    "a": 1,\n    "c": 2\n}\n',
            "d: 1\na: 2\n",
            "a:\n- x\n",
            "a:1\n",
            "a: [x, y] # z\nb: 1\n",
            "a: 1\na: 2\n",
            "  a: 1\n  c: 2\n",
            "a:\n",
        ),
    )
    values: tuple[Any, ...] = (
        None,
        "text",
        5,
        True,
        "a, b",
        "it's",
        [],
        ["p", "q"],
        {},
        {"k": "v"},
        "x: y",
        "007",
        "",
    )
    rows = []
    for text in texts:
        for name in ("a", "b", "c", "e"):
            for value in values:
                source = read(text)
                rows.append(
                    f"{text!r} {name} = {value!r}: {answered(lambda: edited(source, text, name, value))[2:]}"  # noqa: B023
                )
    scalars = (
        "a",
        "",
        "1",
        "1.5",
        "yes",
        "No",
        "null",
        "~",
        "2017-01-01",
        "12:30",
        "0x1F",
        "a: b",
        "a #b",
        "-a",
        "=a",
        "[a]",
        "é",
        "a\nb",
        "'a'",
        '"',
        "a ",
        ".5",
        "1e5",
        "y",
        "a,b",
        "@a",
        "\t",
    )
    rows += [answered(scalar, text, quote) for text in scalars for quote in ("", "'", '"')]
    rows += [answered(entry_lines, "a b", value, indent) for value in values for indent in ("", "  ")]
    assert_table("edits", rows)


def test_patterns_of_ignore_files() -> None:
    patterns = (
        *(
            "a",
            "*.pt",
            "a/",
            "/a",
            "a/b",
            "**/a",
            "a/**",
            "a/**/b",
            "**",
            "*",
            "?",
            "a?",
            "[ab]",
            "[!ab]",
            "[a-c]",
            "[^a-c]x",
            "[]a]",
            "[a",
            "[[:digit:]]",
            "[[:bad:]]",
            "[z-a]",
            "\\*",
            "\\",
            "a\\",
            "!a",
            "#a",
            "\\#a",
            "a ",
            "a\\ ",
            "a\\\\ ",
        ),
        *(
            "*a*",
            "*a*b*",
            "a*b*c",
            "**a",
            "a**b",
            "a/*/b",
            "a/*b*/c",
            "*/b",
            "**/a/**/b",
            "**/a/**",
            "a/***",
            "***/a",
            "*?*",
            "[a-]",
            "[-a]",
            "[a/b]",
            "a[/]b",
            "*.[ch]*",
            "x/**/*.p?t",
            "[[:alpha:][:digit:]]*",
            "\\[a]",
            "[\\]]",
            "*a*a*a*",
            "a\r",
            "a\0b",
            "//a",
            "a//b",
            "!",
            "/",
            "!/",
            "[!/]",
            "[!]]",
            "**/",
            "*\\*",
            "a/**b",
            "x*/y*z*",
        ),
    )
    names = (
        "a",
        "b",
        "c",
        "x",
        "ab",
        "a.pt",
        "a/b",
        "a/x/b",
        "x/a",
        "x/y/a",
        "a/x/y/b",
        "*",
        "#a",
        "a ",
        "\\",
        "]",
        "-",
        "5",
        "aXbXc",
        "abc",
        "a/b/c",
        "x/q.ppt",
        "x/y/q.pxt",
        "[a]",
        "aaa",
        "aaaa",
        "a*",
        "a/abc/c",
        "xq/yaz",
        "",
        ".a",
        "1a2",
        "!a",
    )
    rows = []
    for pattern in patterns:
        for base in (b"", b"x/"):
            table = Patterns(tuple(parse([pattern.encode()], b".gitignore", base)))
            hits = [
                path + ("/" if folder else "")
                for path in names
                for folder in (False, True)
                if table.last(path.rpartition("/")[2].encode(), path.encode(), folder)
            ]
            rows.append(f"{pattern!r} in {base.decode() or './'}: {' '.join(hits)}")
    many = Patterns(
        tuple(
            parse(
                [f"*{number}*.x".encode() for number in range(210)]
                + [f"a{number}*".encode() for number in range(210)]
                + [b"!a5*", b"*.keep"],
                b".gitignore",
                b"",
            )
        )
    )
    for name in (b"a17", b"a205b", b"a5", b"q209.x", b"q5.x", b"z", b"a7.keep"):
        last = many.last(name, name, False)
        rows.append(f"{name!r}: {last and last.written!r} {many.ignores(name, name, False)}")
    assert_table("ignore-patterns", rows)


def _secret(name: bytes, status: os.stat_result, content: bytes) -> str:
    return ignore.secret_by_content(name, status, lambda: content)


def test_files_that_a_snapshot_leaves_out(tmp_path: Path) -> None:
    names = (
        *(
            ".env",
            ".env.local",
            ".env.example",
            ".environment",
            "x.env",
            ".netrc",
            "id_rsa",
            "id_rsa.pub",
            "kaggle.json",
            "a.kubeconfig",
            "x.ppk",
            "x.kdbx",
            "credentials",
            ".aws/credentials",
            "a/.aws/credentials",
            "config",
            ".kube/config",
            "token",
            "huggingface/token",
        ),
        *(".docker/config.json", ".config/gh/hosts.yml", "hosts.yml", "normal.py"),
    )
    folders = (".ssh", ".gnupg", "gcloud", ".config/gcloud", ".azure", "ssh", "x/.ssh")
    rows = [f"{path}: {ignore.secret_by_name(os.path.basename(path).encode(), path.encode())}" for path in names]
    rows += [f"{path}/: {ignore.secret_folder(os.path.basename(path).encode(), path.encode())}" for path in folders]
    rows += [
        f"{sorted(names)}: {ignore.marked_folder(names)}"
        for names in ([b"pyvenv.cfg"], [b"store.json"], [b"store.json", b"objects"], [b"objects"])
    ]
    key = b"-----BEGIN RSA PRIVATE KEY-----\nabc\n"
    contents = (
        (b"x", key),
        (b"x", b"\n" + key),
        (b"x", key[:20]),
        (b"a.pem", b"x" + key),
        (b"a.pem", b"x"),
        (b"a.key", key),
        (b"a.json", b'"client_secret" "refresh_token"'),
        (b"a.json", b'"client_secret"'),
        (b"a.json", b'"clientId": 1, "clientSecret": 2'),
        (b".npmrc", b"//r/:_authToken=x\n"),
        (b".npmrc", b"_authToken=${X}\n_password="),
        (b".npmrc", b"a=b"),
        (b"a.txt", b'"clientId" "clientSecret"'),
    )
    for name, content in contents:
        for mode, size in ((0o600, 100), (0o644, 100), (0o600, (1 << 15)), (0o600, (1 << 15) + 1)):
            status = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, 0, 0, size, 0, 0, 0))
            rows.append(f"{name!r} {content[:30]!r} {mode:o} {size}: {_secret(name, status, content)}")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n")
    (tmp_path / ".amlignore").write_text("!.env\n!.ssh/\n*.bin\n")
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("private\n")
    for path in (
        "a.log",
        "keep.log",
        "build/x",
        ".env",
        ".env.local",
        ".ssh/x",
        "a/.gnupg/y",
        "w.bin",
        "private",
        "outputs/x",
        "sub/outputs/x",
        "__pycache__/x",
        "sub/c.dat",
        "venv/pyvenv.cfg",
        ".holdfast-project.1",
        "sub/id_rsa",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / "sub" / ".gitignore").write_text("*.dat\n!c.dat\n/d.dat\n")
    os.chmod(tmp_path / "sub" / "c.dat", 0o644)
    stored = ignore.StoredRules(
        os.fsencode(tmp_path),
        {
            b".gitignore": b"*.log\n!keep.log\n",
            b"sub/.gitignore": b"*.dat\n!c.dat\n",
            b".amlignore": b"!.env\n!.ssh/\n",
        },
    )
    for path in (
        "a.log",
        "keep.log",
        "build/x",
        ".env",
        ".env.local",
        ".ssh/x",
        "a/.gnupg/y",
        "w.bin",
        "private",
        "outputs/x",
        "sub/outputs/x",
        "__pycache__/x",
        "sub/c.dat",
        "sub/e.dat",
        "sub/deep/e.dat",
        "venv/pyvenv.cfg",
        ".holdfast-project.1",
        "sub/id_rsa",
        "gone",
        ".",
        "./a.log",
    ):
        rows.append(f"{path}: {ignore.explain(str(tmp_path), path)} | stored: {stored.leaves_out(os.fsencode(path))}")
    rows.append(f"{ignore.foreign_files(str(tmp_path))}")
    for number, length in ((5000, 1), (5001, 1), (1, 4096), (1, 4097)):
        text = b"".join(b"%d" % line + b"x" * (length - 1) + b"\n" for line in range(number))
        rows.append(
            answered(lambda text=text: len(text) and ignore.Rules.with_exclude(text, b"/x") and "read").partition(": ")[
                2
            ]
        )
    full = b"a\n" * 5000
    below = ignore.Rules.with_exclude(full, b"/x").with_files(b"", lambda file: full if file == b".gitignore" else b"")
    for file in (b".gitignore", b".amlignore"):
        rows.append(
            answered(
                lambda file=file: below.with_files(b"s", lambda name: b"a\n" if name == file else b"") and "read"
            ).partition(": ")[2]
        )
    for size in ((1 << 20), (1 << 20) + 1):
        (tmp_path / ".gitignore").write_bytes(b"#" * size)
        rows.append(answered(ignore.explain, str(tmp_path), "a.log").replace(str(tmp_path), "ROOT").partition(": ")[2])
    assert_table("left-out", rows)
