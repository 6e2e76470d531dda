"""``.compute`` files of every generation."""

from __future__ import annotations

import os

from holdfast import kinds
from holdfast.amlconfig.form import Form
from holdfast.amlconfig.nodes import Scalar, Sequence
from holdfast.amlconfig.source import Source
from holdfast.amlconfig.types import ComputeTarget, split_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from holdfast.amlconfig.types import Finding

KEYS = (
    "type",
    "pythonLocation",
    "sparkSubmitLocation",
    "nativeSharedDirectory",
    "baseDockerImage",
    "sharedVolumes",
    "nvidiaDocker",
    "address",
    "username",
    "password",
    "userManagedEnvironment",
    "environment",
    "yarnDeployMode",
    "cluster",
    "native",
    "root",
    "port",
    "engine",
    "dockerfile",
    "containerUser",
    "shmSize",
    "memory",
    "cpus",
    "network",
    "dockerArguments",
    "gpus",
    "hostKey",
    "privateKeyFile",
    "startCommand",
    "stopCommand",
    "stopOnTarget",
    "stopWhenIdleMinutes",
    "pricePerHour",
    "sharedData",
)
_OF_CONTAINERS = ("dockerfile", "containerUser", "shmSize", "memory", "cpus", "network", "dockerArguments")
# Docker refuses less memory; so little of either is a number without its unit.
_LEAST_MEMORY = 6 << 20
_LEAST_SHM = 1 << 20
_PLACEHOLDERS = ("my_dsvm_ip_address", "my_name", "my_password")


def read_compute(path: str | os.PathLike[str], shown: str = "") -> tuple[ComputeTarget | None, list[Finding]]:
    """The target in a file, or ``None`` exactly when a finding is an error; ``shown`` is its name in findings."""
    path = os.fspath(path)
    source = Source(path, shown or path, KEYS)
    if source.root is None:
        return None, source.findings
    form = Form(source, source.root, KEYS)
    target = _target(form, os.path.splitext(os.path.basename(path))[0])
    target = _with_environment(form, target)
    _check_password(form, target.name)
    _check_completeness(form, target)
    _check_login(form, target)
    _check_containers(form, target)
    _check_spark(form, target)
    return source.result(target)


def docker_arguments(form: Form, name: str, engine: str | None = None) -> tuple[str, ...] | None:
    """Words for the engine's ``run``, every one of them looked at."""
    arguments = form.words(name)
    if arguments is None:
        return None
    from holdfast.amlconfig.docker_arguments import remarks

    texts = tuple(text for text, _ in arguments)
    for remark in remarks(texts, engine):
        node = arguments[remark.word][1]
        say = form.source.error if remark.severity == "error" else form.source.warn
        say(node.line, node.column, remark.message, remark.hint)
    return texts


def image(form: Form, name: str) -> str | None:
    text = _filled(form, name)
    if text is None:
        return None
    from holdfast.image_names import complaint

    message, hint = complaint(text)
    if message:
        form.error(name, message, hint)
        return None
    return text


def _target(form: Form, name: str) -> ComputeTarget:
    engine: Literal["docker", "podman"] | None = form.choice("engine", ("docker", "podman"))
    kind = _type(form) or ""
    return ComputeTarget(
        name=name,
        type=kind,
        python_location=_filled(form, "pythonLocation"),
        spark_submit_location=form.text("sparkSubmitLocation"),
        native_shared_directory=form.text("nativeSharedDirectory"),
        base_docker_image=image(form, "baseDockerImage"),
        shared_volumes=form.flag("sharedVolumes"),
        nvidia_docker=form.flag("nvidiaDocker"),
        address=_login_word(form, "address"),
        username=_login_word(form, "username"),
        user_managed_environment=form.flag("userManagedEnvironment"),
        yarn_deploy_mode=form.choice("yarnDeployMode", ("cluster", "client")),
        root=form.text("root"),
        port=form.number("port", 1, 65535, 22),
        engine=engine,
        dockerfile=form.path("dockerfile"),
        container_user=_container_user(form),
        shm_size=form.size("shmSize", _LEAST_SHM),
        memory=form.size("memory", _LEAST_MEMORY),
        cpus=form.decimal("cpus", "a number of processors", "2 or 1.5"),
        network=_network(form),
        docker_arguments=docker_arguments(form, "dockerArguments", engine),
        gpus=form.gpus("gpus"),
        host_key=_host_key(form),
        private_key_file=form.text("privateKeyFile"),
        start_command=form.text("startCommand"),
        stop_command=form.text("stopCommand"),
        stop_on_target=form.text("stopOnTarget"),
        stop_when_idle_minutes=form.decimal("stopWhenIdleMinutes", "a number of minutes", "30"),
        price_per_hour=form.decimal("pricePerHour", "a price", "3.06"),
        shared_data=_absolute(form, "sharedData"),
        extra=form.extra(kinds.of(kind).settings),
    )


def _with_environment(form: Form, target: ComputeTarget) -> ComputeTarget:
    """``environment`` is the plain spelling of ``userManagedEnvironment``; where both are there they must agree."""
    text = _filled(form, "environment")
    if text is None:
        return target
    if text.lower() in ("project", "active"):
        text = text.lower()
    elif not text.startswith(("~", ".")) and "/" not in text and os.sep not in text:
        form.error("environment", f"environment cannot be {text!r}", "write environment: project, active or a path")
        return target
    if text == "active" and (target.kind.is_remote or target.kind.in_container):
        message = f"a {target.type} target has no active environment; it is one of the shell on this machine"
        form.error("environment", message, "write environment: project, or a path on the target")
    own = text != "project"
    if target.user_managed_environment not in (None, own):
        line = form.place("userManagedEnvironment")[0] + 1
        value = "true" if target.user_managed_environment else "false"
        message = f"environment: {text} contradicts userManagedEnvironment: {value} in line {line}"
        form.error("environment", message, "delete one of the two lines")
    return target._replace(environment=text, user_managed_environment=own)


def _type(form: Form) -> str | None:
    kind = form.text("type")
    if kind is not None:
        if kinds.is_known(kind.lower()):
            return kind.lower()
        form.warn("type", f"type {kind!r} is not supported", f"one of: {', '.join(kinds.names())}")
        return kind
    # Before 08-2017 two flags stood in for the type, and a virtual machine with Docker was the default.
    if form.flag("cluster"):
        return "cluster"
    if form.flag("native"):
        return "remote" if form.text("address") else "local"
    if "cluster" in form.nodes or "native" in form.nodes:
        return "virtualmachine"
    form.source.error(0, 0, "the key 'type' is missing", f"add the line {form.line('type', 'local')}")
    return None


def _filled(form: Form, name: str) -> str | None:
    """Text that is not the sample text of the guide or of the original's pages."""
    node = form.nodes.get(name)
    sample = None
    if isinstance(node, Sequence) and node.flow and len(node.items) == 1 and isinstance(node.items[0], Scalar):
        sample = f"[{node.items[0].text}]"
    elif isinstance(node, Scalar) and (node.text.strip() in _PLACEHOLDERS or _is_bracketed(node.text.strip())):
        sample = node.text.strip()
    if sample is None:
        return form.text(name)
    form.error(name, f"{name} still contains the sample text {sample}", "replace it with your own value")
    return None


def _is_bracketed(text: str) -> bool:
    return (text[:1], text[-1:]) in (("<", ">"), ("[", "]")) and ":" not in text


def _absolute(form: Form, name: str) -> str | None:
    text = form.text(name)
    if text is not None and not text.startswith(("/", "~/")):
        form.error(name, f"{text} is not an absolute path", f"write {name}: /srv/holdfast-data")
        return None
    return text


def _login_word(form: Form, name: str) -> str | None:
    """Something that will stand on ssh's command line."""
    text = _filled(form, name)
    if text is not None and (text[0] == "-" or not text.isprintable() or " " in text):
        form.error(name, f"{name} cannot be {text!r}", f"write {name}: without spaces and not starting with '-'")
        return None
    return text


def _container_user(form: Form) -> str | None:
    text = form.text("containerUser")
    if text is None or (text.count(":") <= 1 and all(map(_is_name, text.split(":")))):
        return text
    hint = "write containerUser: root, a user of the image, or 1000:1000"
    form.error("containerUser", f"containerUser cannot be {text!r}", hint)
    return None


def _network(form: Form) -> str | None:
    text = form.text("network")
    if text is not None and not _is_name(text):
        form.error("network", f"network cannot be {text!r}", "write network: bridge, host, none or a network's name")
        return None
    if text == "host":
        message = "the script uses the machine's network and can reach services on its localhost"
        form.warn("network", message)
    return text


def _is_name(text: str) -> bool:
    plain = text.replace("_", "").replace(".", "").replace("-", "")
    return text[:1] not in (".", "-") and plain.isascii() and plain.isalnum()


def _host_key(form: Form) -> str | None:
    """Type and key as OpenSSH writes them, without a comment."""
    text = form.text("hostKey")
    fields = (text or "").split()
    if text is not None and (len(fields) != 2 or not is_host_key(*fields)):
        form.error("hostKey", "hostKey is not an OpenSSH public key", "attach the target again to write it")
        return None
    return text


def is_host_key(kind: str, key: str) -> bool:
    """Whether these two words are a public key that names its own type."""
    import binascii

    try:
        blob = binascii.a2b_base64(key.encode("ascii"))
    except ValueError:
        return False
    return (
        kind.isascii() and blob[4 : 4 + int.from_bytes(blob[:4], "big")] == kind.encode("ascii") and len(blob) < 20_000
    )


def _check_password(form: Form, target: str) -> None:
    node = form.nodes.get("password")
    if node is None or (isinstance(node, Scalar) and node.is_null):
        return
    from shlex import quote

    hint = f"attach again (holdfast computetarget attach --name {quote(target)} ...), then delete this line"
    if isinstance(node, Scalar) and node.text.startswith("AzureMlSecret="):
        form.warn("password", "this refers to a key store that was shut down; it is not a password", hint)
    else:
        form.warn("password", "passwords in files are not used", hint)


def _check_completeness(form: Form, target: ComputeTarget) -> None:
    if target.kind.is_remote and form.absent("address"):
        _ask_for(form, "address", f"a {target.type} target needs an address", "write address: host.example.org")
    if target.kind.in_container and form.absent("baseDockerImage") and form.absent("dockerfile"):
        _ask_for(form, "baseDockerImage", f"a {target.type} target needs an image", "write baseDockerImage: name:tag")


def _check_login(form: Form, target: ComputeTarget) -> None:
    if not target.kind.over_ssh:
        return
    from holdfast.hosts import openssh

    host = split_address(target.address or "", target.port)[0]
    for name, word in (("address", host), ("username", target.username or "")):
        message, hint = openssh.complaint(name, word) if word else ("", "")
        if message:
            form.error(name, message, hint)


def _check_containers(form: Form, target: ComputeTarget) -> None:
    is_rootfs = (target.base_docker_image or "").startswith("rootfs:")
    if is_rootfs and target.engine == "docker":
        form.error(
            "baseDockerImage",
            "docker cannot use a folder as a root file system",
            "write engine: podman, or name an image",
        )
    if target.dockerfile and target.base_docker_image:
        form.warn("baseDockerImage", "baseDockerImage is ignored because dockerfile is set", "delete one of the two")
    has_none = target.kind.is_available and not target.kind.in_container
    for name in _OF_CONTAINERS if has_none else ():
        if not form.absent(name):
            hint = "delete this line, or use a target of type docker or remotedocker"
            form.warn(name, f"{name} applies only to containers; a {target.type} target has none", hint)


def _check_spark(form: Form, target: ComputeTarget) -> None:
    if not target.kind.framework:
        return
    key = "sparkMaster" if target.kind.is_remote else "address"
    text = str(target.own_settings.get(key) or "") if target.kind.is_remote else target.address
    if text:
        from holdfast.amlconfig import spark_address

        message, hint = spark_address.complaint(key, text)
        if message:
            form.error(key, message, hint)


def _ask_for(form: Form, name: str, message: str, hint: str) -> None:
    if name in form.nodes:
        form.error(name, f"{name} is empty: {message}", hint)
    else:
        form.error("type" if "type" in form.nodes else next(iter(form.nodes)), message, hint)


def hdinsight_cluster(target: ComputeTarget) -> str:
    """The address of a Spark cluster of Azure HDInsight; empty for any other target."""
    address = target.address or ""
    return address if target.kind.framework and address.endswith(".azurehdinsight.net") else ""
