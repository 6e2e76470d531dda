"""pip's own configuration on this machine: where it looks for packages. uv, which installs them, reads none of it.

Addresses may hold passwords: what is read here goes to the builder on its standard input, and is stored nowhere.
"""

import os
import re
import subprocess

MYPY = False
if MYPY:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

_LISTS = {"extra-index-url": "extra_index_urls", "find-links": "find_links", "trusted-host": "trusted_hosts"}
_NAMES = ("index-url", "no-index", *_LISTS)
_TRUE = ("y", "yes", "t", "true", "on", "1")
_LARGEST = 1 << 20
_ADDRESSES = ("http://", "https://", "file:///")
_AUTHORITY = re.compile(r"https?://(?:[^/?#]*@)?(?:\[[^/?#@]*\]|[^/?#@:]+)(?::[0-9]*)?(?=[/?]|\Z)[^#]*\Z")
_NO_SCHEME = re.compile(r"[^/]*:[^/]*@")
_USERINFO = re.compile(rb"(://)[^\s/?#'\"<>]*@")
_QUERY = re.compile(rb"(://[^\s?#'\"<>]*)\?[^\s'\"<>)]*")


class BadAddress(ValueError):
    """An address that would be read in another way than it was meant, with a part of its password as the host."""


def read(environ: "Mapping[str, str] | None" = None) -> "dict[str, object]":
    """What is set, under the names of ``PipOptions``; as with pip, a variable overrides the files."""
    environ = os.environ if environ is None else environ
    settings = {}  # type: dict[str, str]
    for path in _files(environ):
        settings.update(_read_file(path))
    for name in _NAMES:
        value = environ.get("PIP_" + name.upper().replace("-", "_"), "")
        if value.strip():
            settings[name] = value
    options = {}  # type: dict[str, object]
    if settings.get("index-url", "").strip().startswith(_ADDRESSES):
        options["index_url"] = settings["index-url"].strip()
    if settings.get("no-index", "").strip().lower() in _TRUE:
        options["no_index"] = True
    for name in ("index-url", "extra-index-url", "find-links"):
        _check(name, settings.get(name, "").split())
    for name, option in _LISTS.items():
        values = [_place(word) if name == "find-links" else word for word in settings.get(name, "").split()]
        if name == "extra-index-url":
            values = [word for word in values if word and word.startswith(_ADDRESSES)]
        if any(values):
            options[option] = [word for word in values if word]
    return options


def portable(options: "dict[str, object]") -> "dict[str, object]":
    """Without folders of this machine, for another one."""
    result = {}  # type: dict[str, object]
    for name, value in options.items():
        items = value if isinstance(value, list) else [value]
        kept = [word for word in items if not str(word).startswith(("file:", "/"))]
        if kept:
            result[name] = kept if isinstance(value, list) else kept[0]
    return result


def merged(own: "dict[str, object]", sent: "object") -> "dict[str, object]":
    """The configuration of this machine, with what the client sent of its own; this machine's index is preferred."""
    result = dict(sent) if isinstance(sent, dict) else {}  # type: dict[str, object]
    for name, value in own.items():
        before = result.get(name)
        if isinstance(value, list) and isinstance(before, list):
            result[name] = value + [word for word in before if word not in value]
        else:
            result[name] = value
    return result


def call(argv: "Sequence[str]", log: "IO[bytes]") -> "int":
    """Run pip with its output in the log, without passwords and query strings of addresses."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            log.write(_QUERY.sub(rb"\1", _USERINFO.sub(rb"\1****@", line)))
            log.flush()
    return process.wait()


def folders(options: "object") -> "list[str]":
    """Folders of this machine among the places; a container must see them.

    An index that is a folder ``simple``, as mirrors make it, names files in a folder beside it: both are seen.
    """
    from urllib.parse import unquote

    fields = dict(options) if isinstance(options, dict) else {}  # type: dict[str, object]
    indexes = [fields.get("index_url")]
    more = fields.get("extra_index_urls")
    indexes += more if isinstance(more, list) else []
    links = fields.get("find_links")
    result = set()  # type: set[str]
    for word in map(str, filter(None, indexes + (links if isinstance(links, list) else []))):
        path = unquote(word[7:]) if word.startswith("file://") else word
        if not path.startswith("/") or not os.path.isdir(path):
            continue
        folder, name = os.path.split(path.rstrip("/"))
        result.add(folder if word in indexes and name == "simple" and folder != "/" else path)
    return sorted(result)


def _files(environ: "Mapping[str, str]") -> "Iterator[str]":
    """In the order in which pip reads them; later ones win."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    home = environ.get("HOME", "")
    for folder in (
        environ.get("XDG_CONFIG_DIRS", "").split(os.pathsep) if environ.get("XDG_CONFIG_DIRS") else ["/etc/xdg"]
    ):
        yield os.path.join(folder, "pip", "pip.conf")
    yield "/etc/pip.conf"
    if home and not (named and os.path.exists(named)):
        yield os.path.join(home, ".pip", "pip.conf")
        yield os.path.join(home, "Library", "Application Support", "pip", "pip.conf")
        yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip", "pip.conf")
    if environ.get("VIRTUAL_ENV"):
        yield os.path.join(environ["VIRTUAL_ENV"], "pip.conf")
    if named:
        yield named


def _read_file(path: "str") -> "dict[str, str]":
    import configparser

    from .. import untrusted

    try:
        text = untrusted.read_file(path, _LARGEST).decode("utf-8")
        parser = configparser.RawConfigParser()
        parser.read_string(text)
    except (OSError, ValueError, configparser.Error):
        return {}  # pip itself says what is wrong with it
    settings = {}
    for section in ("global", "install"):
        for key, value in parser.items(section) if parser.has_section(section) else ():
            name = key.lower().replace("_", "-").lstrip("-")
            if name in _NAMES:
                settings[name] = value or ""
    return settings


def _check(name: "str", addresses: "list[str]") -> "None":
    for address in addresses:
        is_web = address.startswith(("http://", "https://"))
        if not (_AUTHORITY.match(address) if is_web else "://" in address or not _NO_SCHEME.match(address)):
            raise BadAddress(
                "%s has an address that cannot be read; it is not shown, because it may hold a password" % name
            )


def _place(word: "str") -> "str | None":
    """An address, or a folder or page of this machine that exists: pip passes over one that does not, uv does not."""
    if "://" in word:
        return word if word.startswith(_ADDRESSES) else None
    path = os.path.abspath(os.path.expanduser(word))
    return path if os.path.exists(path) else None
