"""The Spark cluster of a target: its master or Connect server, and whether something answers there."""

from __future__ import annotations

import re

from holdfast import target_lookup
from holdfast.amlconfig import spark_address
from holdfast.errors import ConfigError, UnreachableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.amlconfig.types import ComputeTarget

YARN = "yarn"
_CONNECT_PORT = 15002
_ANSWER_S = 5.0


def master_of(compute: ComputeTarget) -> str:
    """``spark://...``, ``sc://...`` or ``yarn``; empty where the target is no cluster."""
    if not compute.kind.framework:
        return ""
    own = compute.own_settings.get("sparkMaster")
    text = str(own or "") if compute.kind.is_remote else target_lookup.endpoint(compute)[0]
    if not text and compute.kind.is_remote:
        return YARN
    key = "sparkMaster" if compute.kind.is_remote else "address"
    message, hint = spark_address.complaint(key, text)
    if message:
        raise ConfigError(message, where=f"{compute.name}.compute", hint=hint)
    return text


def version(compute: ComputeTarget, on_head_node: str = "") -> str:
    """That of the cluster's Spark: what is installed on its head node, or what master or server say; "" if unknown."""
    text = master_of(compute)
    if compute.kind.is_remote or not text:
        return on_head_node if text else ""
    from holdfast.script_api.spark import master_page, server_version

    return server_version.version(text) if text.startswith("sc://") else master_page.version(text)


def is_refused(compute: ComputeTarget, mine: str, theirs: str) -> bool:
    """Whether a PySpark of this version cannot work with the cluster's: a server also knows older clients."""
    from holdfast.script_api.spark import master_page, server_version

    is_connect = master_of(compute).startswith("sc://")
    return server_version.is_newer(mine, theirs) if is_connect else master_page.is_other(mine, theirs)


def check(compute: ComputeTarget) -> None:
    """Raise where a cluster that is used from this machine does not answer; nothing is sent to it."""
    text = master_of(compute)
    if compute.kind.is_remote or not text:
        return
    import socket

    answers = []
    for host, port in _endpoints(text):
        try:
            socket.create_connection((host, port), timeout=_ANSWER_S).close()
            return
        except OSError as error:
            answers.append(f"{host}:{port}: {error.strerror or error}")
    what = (
        "the Spark Connect server does not answer" if text.startswith("sc://") else "the Spark master does not answer"
    )
    raise UnreachableError(what, where=text, answer="\n".join(answers), hint="is it running, and reached from here?")


def _endpoints(text: str) -> list[tuple[str, int]]:
    places = text.partition("://")[2].partition("/")[0].split(",")
    pairs = [re.fullmatch(r"\[?(.+?)\]?(?::(\d+))?", host) for host in places]
    return [(match[1], int(match[2] or _CONNECT_PORT)) for match in pairs if match is not None]
