"""Names of images: which ones an engine can read, and what stands in for those that were withdrawn."""

from __future__ import annotations

ROOTFS = "rootfs:"
PLAIN = "docker.io/library/python:3.11-bookworm"
CUDA = "docker.io/nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04"
_WITHDRAWN = {
    "microsoft/mmlspark": "Spark 2, MMLSpark, CNTK, Java 8 and Python 3.5",
    "microsoft/cntk": "CNTK and Python 3.5",
}
_LONGEST = 255
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-f]{32,}"
_REFERENCE = rf"(?:{_HOST}/)?{_PART}(?:/{_PART})*(?::{_TAG})?(?:@{_DIGEST})?"


def replaced(image: str) -> tuple[str, str]:
    """The image to use, and the words to say about it: none where the name stays as it is."""
    name = image.removeprefix("index.").removeprefix("docker.io/")
    repository, _, tag = name.partition("@")[0].partition(":")
    gone = _WITHDRAWN.get(repository)
    if gone is None:
        return image, ""
    if "gpu" not in tag:
        return PLAIN, f"{image} was withdrawn; {PLAIN} is used in its place. Gone with it: {gone}"
    words = f"{image} was withdrawn; {CUDA} is used in its place. Gone with it: {gone}, CUDA 8 or 9"
    return CUDA, f"{words}. The new one has no Python of its own: the project's environment brings it"


def complaint(image: str) -> tuple[str, str]:
    """Why no engine can use this name, and what to write; both empty where it can."""
    if image.startswith(ROOTFS):
        return _rootfs_complaint(image[len(ROOTFS) :])
    if _is_reference(image):
        return "", ""
    message = f"{image!r} is not the name of an image"
    for meant in (image.partition("://")[2], image.lower(), image.partition("://")[2].lower()):
        if _is_reference(meant):
            return message, f"write {meant}"
    return message, "write name:tag, as in python:3.11, or name@sha256:..., or rootfs:/folder"


def _rootfs_complaint(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        return f"rootfs: needs the full path of a folder on the target, not {path!r}", "write rootfs:/path/to/folder"
    # podman reads what follows a colon as options, and a comma parts them.
    if any(sign in path for sign in ":,") or not path.isprintable():
        return f"podman cannot take {path!r} as a root folder", "use a path without ':', ',' and unprintable signs"
    return "", ""


def _is_reference(text: str) -> bool:
    import re

    return len(text) <= _LONGEST and re.fullmatch(_REFERENCE, text) is not None
