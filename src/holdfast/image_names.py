"""Parses names of container images, and replaces images that were withdrawn."""

from __future__ import annotations

from holdfast.withdrawn import (
    CUDA_IMAGE,
    CUDA_IMAGES,
    IMAGES,
    NVIDIA_IMAGES,
    NVIDIA_OLDEST_CUDA,
    PLAIN_IMAGE,
)

ROOTFS = "rootfs:"
_LONGEST = 255
_LOWER = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_SEPARATORS = frozenset("._-")
_NEVER_INSIDE = ("..", "___", "._", "_.", ".-", "-.", "_-", "-_")
_HEX = frozenset("0123456789abcdef")


def replaced(image: str, cuda: tuple[int, int] | None = None) -> tuple[str, str]:
    """The image to use, and the words to say about it: none where the name stays as it is.

    ``cuda`` is what the project's framework needs of the image.
    """
    repository, tag = _parts(image)
    gone = IMAGES.get(repository)
    if gone is None:
        return _replaced_nvidia(image, cuda)
    if "gpu" not in tag:
        return PLAIN_IMAGE, f"{image} was withdrawn; {PLAIN_IMAGE} is used in its place. No longer included: {gone}"
    new = for_cuda(cuda)
    message = f"{image} was withdrawn; {new} is used in its place. No longer included: {gone}, CUDA 8 or 9"
    return new, f"{message}. The new image has no Python; the project's environment provides it"


def cuda_of(image: str) -> tuple[int, int] | None:
    """The CUDA that an image of NVIDIA, or one of the replacements, has by its name."""
    for cuda, name in CUDA_IMAGES.items():
        if image == name:
            return cuda
    repository, tag = _parts(image)
    numbers = tag.partition("-")[0].split(".")
    if repository != NVIDIA_IMAGES or len(numbers) < 2 or not all(part.isdecimal() for part in numbers[:2]):
        return None
    return int(numbers[0]), int(numbers[1])


def for_cuda(cuda: tuple[int, int] | None) -> str:
    """An image that can be had and has this CUDA, or a recent one where none has it."""
    return CUDA_IMAGES.get(cuda, CUDA_IMAGE) if cuda else CUDA_IMAGE


def _replaced_nvidia(image: str, cuda: tuple[int, int] | None) -> tuple[str, str]:
    has = cuda_of(image)
    if has is None or has[0] >= NVIDIA_OLDEST_CUDA or image in CUDA_IMAGES.values():
        return image, ""
    new = for_cuda(cuda)
    message = f"{image} was withdrawn: NVIDIA keeps no images with CUDA {has[0]}.{has[1]}"
    return new, f"{message}; {new} is used in its place"


def _parts(image: str) -> tuple[str, str]:
    name = image.removeprefix("index.").removeprefix("docker.io/")
    repository, _, tag = name.partition("@")[0].partition(":")
    return repository, tag


def complaint(image: str) -> tuple[str, str]:
    """Why no engine can use this name, and what to write; both empty where it can."""
    if image.startswith(ROOTFS):
        return _rootfs_complaint(image[len(ROOTFS) :])
    if _is_reference(image):
        return "", ""
    message = f"{image!r} is not a valid image name"
    for meant in (image.partition("://")[2], image.lower(), image.partition("://")[2].lower()):
        if _is_reference(meant):
            return message, f"write {meant}"
    return message, "write name:tag, as in python:3.11, or name@sha256:..., or rootfs:/folder"


def _rootfs_complaint(path: str) -> tuple[str, str]:
    if not path.startswith("/"):
        return f"rootfs: needs the full path of a folder on the target, not {path!r}", "write rootfs:/path/to/folder"
    # podman reads what follows a colon as options, and a comma parts them.
    if any(sign in path for sign in ":,") or not path.isprintable():
        return f"podman cannot take {path!r} as a root folder", "use a path without ':', ',' and unprintable characters"
    return "", ""


def _is_reference(text: str) -> bool:
    """By hand, because compiling a pattern takes longer than all the rest of reading a file."""
    name, at, digest = text.partition("@")
    path, _, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if not text.isascii() or len(text) > _LONGEST or (colon and not _is_tag(tag)) or (at and not _is_digest(digest)):
        return False
    first, *parts = [*path.split("/"), last] if path or name.startswith("/") else [last]
    return all(map(_is_part, parts)) and (_is_part(first) or (bool(parts) and _is_host(first)))


def _is_part(text: str) -> bool:
    inside = set(text) <= _LOWER | _SEPARATORS and not any(pair in text for pair in _NEVER_INSIDE)
    return inside and text[:1] in _LOWER and text[-1:] in _LOWER


def _is_host(text: str) -> bool:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit()):
        host = text
    if host.startswith("[") and host.endswith("]"):
        return len(host) > 2 and set(host[1:-1].lower()) <= _HEX | {":"}
    return set(host.lower()) <= _LOWER | {".", "-"} and host[:1].isalnum() and host[-1:].isalnum()


def _is_tag(text: str) -> bool:
    return 0 < len(text) <= 128 and set(text.lower()) <= _LOWER | _SEPARATORS and text[0] not in ".-"


def _is_digest(text: str) -> bool:
    kind, _, value = text.partition(":")
    return kind.isalnum() and kind == kind.lower() and len(value) >= 32 and set(value) <= _HEX
