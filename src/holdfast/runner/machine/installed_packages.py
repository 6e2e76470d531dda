"""Lists the packages of the Python that runs this file, by the names and contents of its folders alone.

Any Python runs it, that of an image and 2.7 too, so it has neither annotations nor bytes paths. No package is imported.
``installed_packages.py [--to FILE] FOLDER...`` prints one JSON object; modules below the folders do not count. The
runner imports this file for every run and needs one small function: what the others need is imported by them.
"""

import os
import sys

MYPY = False
if MYPY:
    from typing import Any  # noqa: F401 - in comments

# name-version.dist-info, name-version[-py3.8].egg-info, name.egg-info
_METADATA = r"(?P<name>[^-]+)(?:-(?P<version>[^-]+)(?:-.*)?)?\.(?:dist|egg)-info$"
_CONDA = r"(?P<name>.+)-(?P<version>[^-]+)-(?P<build>[^-]+)\.json$"
_SYSTEM = r"/usr/lib(64)?/python3?[^/]*/(dist|site)-packages$"
_LARGEST = 1 << 20


def main():
    # type: () -> None
    import json

    arguments = sys.argv[1:]
    target = ""
    if arguments[:1] == ["--to"]:
        target, arguments = arguments[1], arguments[2:]
    text = json.dumps(describe(arguments))
    if not target:
        sys.stdout.write(text)
        return
    with open(target + ".tmp", "w") as sink:
        sink.write(text)
    os.rename(target + ".tmp", target)


def describe(apart):
    # type: (list[str]) -> dict[str, Any]
    """``python``, ``packages``, ``conda``, and ``state``: what stays the same as long as these do."""
    folders = _folders(apart)
    packages = {}  # type: dict[str, dict[str, Any]]
    for folder in folders:
        for package in _packages(folder):
            packages.setdefault(package["name"], package)  # the first on the path is the one that is imported
    return {
        "python": _python(),
        "packages": [packages[name] for name in sorted(packages)],
        "conda": _conda_packages(os.path.join(sys.prefix, "conda-meta")),
        "state": {path: state_of(path) for path in _watched(folders)},
    }


def state_of(path):
    # type: (str | bytes) -> str
    """Changes whenever a package is added to or removed from the folder; empty where there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return ""
    return "%d %d" % (int(state.st_mtime * 1000), state.st_size)


def _folders(apart):
    # type: (list[str]) -> list[str]
    folders = []  # type: list[str]
    for path in map(os.path.abspath, sys.path[1:]):  # the first one is the folder of this file
        is_apart = any(path == folder or path.startswith(folder + os.sep) for folder in apart)
        if os.path.isdir(path) and not is_apart and path not in folders:
            folders.append(path)
    return folders


def _watched(folders):
    # type: (list[str]) -> list[str]
    import site

    watched = list(folders)
    for name in ("getsitepackages", "getusersitepackages"):  # also where they are not there yet
        try:
            paths = getattr(site, name)()
        except Exception:  # the site module of an old virtualenv has neither
            continue
        watched += [paths] if isinstance(paths, str) else list(paths)
    for folder in folders:
        watched += [os.path.join(folder, name) for name in _names(folder) if name.endswith(".pth")]
    watched.append(os.path.realpath(sys.executable or ""))
    return watched + [os.path.join(sys.prefix, name) for name in ("pyvenv.cfg", "conda-meta")]


def _python():
    # type: () -> dict[str, Any]
    base = getattr(sys, "base_prefix", None) or getattr(sys, "real_prefix", None) or sys.prefix
    is_conda = os.path.isdir(os.path.join(sys.prefix, "conda-meta"))
    kind = "venv" if base != sys.prefix else "conda" if is_conda else None
    executable = sys.executable or ""
    return {
        "path": executable,
        "version": sys.version.split()[0],
        "implementation": str(getattr(getattr(sys, "implementation", None), "name", "cpython")),
        "environment": sys.prefix if kind else None,
        "kind": kind,
        "base": getattr(sys, "_base_executable", None) or os.path.realpath(executable),
    }


def _packages(folder):
    # type: (str) -> list[dict[str, Any]]
    import re

    packages = []
    for entry in _names(folder):
        match = re.match(_METADATA, entry)
        if match is None:
            continue
        path = os.path.join(folder, entry)
        version = match.group("version") or _version_in(path)
        if not version:
            continue
        package = {"name": re.sub(r"[-_.]+", "-", match.group("name")).lower(), "version": version}  # type: dict[str, Any]
        installer = _text(os.path.join(path, "INSTALLER")).strip()
        if re.match(_SYSTEM, folder) and installer not in ("pip", "uv"):
            installer = installer or "system"
        if installer:
            package["installer"] = installer
        package.update(_origin(path))
        if entry.endswith(".egg-info") and not match.group("version"):
            package.update(url="file://" + folder, editable=True)  # setup.py develop
        packages.append(package)
    return packages


def _origin(path):
    # type: (str) -> dict[str, Any]
    """Where a package came from that did not come from an index (PEP 610)."""
    import json

    try:
        direct_url = json.loads(_text(os.path.join(path, "direct_url.json")) or "{}")
        origin = {"url": direct_url["url"]} if direct_url.get("url") else {}
        for name in ("vcs_info", "dir_info", "archive_info"):
            inner = direct_url.get(name) or {}
            if inner.get("commit_id"):
                origin.update(commit=inner["commit_id"], vcs=inner.get("vcs"))
            if inner.get("editable"):
                origin["editable"] = True
        if direct_url.get("subdirectory"):
            origin["subdirectory"] = direct_url["subdirectory"]
        return origin
    except (ValueError, AttributeError, KeyError, TypeError):
        return {}


def _version_in(path):
    # type: (str) -> str
    for name in ("PKG-INFO", "METADATA", ""):
        for line in _text(os.path.join(path, name) if name else path).split("\n"):
            if line.startswith("Version:"):
                return line[len("Version:") :].strip()
    return ""


def _conda_packages(folder):
    # type: (str) -> list[dict[str, Any]]
    import re

    matches = [re.match(_CONDA, name) for name in _names(folder)]
    return [dict(match.groupdict(), channel=_channel(folder, match.group(0))) for match in matches if match]


def _channel(folder, name):
    # type: (str, str) -> str
    import re

    match = re.search(r'"channel": *"([^"]*)"', _text(os.path.join(folder, name)))
    return match.group(1) if match else ""


def _names(folder):
    # type: (str) -> list[str]
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path):
    # type: (str) -> str
    try:
        with open(path, "rb") as source:
            return source.read(_LARGEST).decode("utf-8", "replace")
    except (OSError, IOError):
        return ""


if __name__ == "__main__":
    main()
