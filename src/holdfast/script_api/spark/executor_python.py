"""The Python of the executors: that of the script, which workers without it fetch from the driver once per content.

Spark starts a small program on each worker instead of a Python. It uses the path of the script's Python where the
worker has it, else the copy that an earlier run left there. Where there is neither it asks the driver for an archive.
"""

import hmac
import os
import re
import shlex
import socket
import sys
import threading

MYPY = False
if MYPY:
    from collections.abc import Iterator
    from typing import IO

NAME = ".holdfast-python"  # in the folder that an executor is started in, and in that of the driver
_LONGEST_REQUEST = 200
_BLOCK = 1 << 20
_ANSWER_S = 600.0
_PORTS = 16  # above spark.driver.port, as Spark looks for a free one
# Bash is what Spark's own programs need. sha256 over the secret on both sides of the content: it came from the driver.
_PROGRAM = """#!/usr/bin/env bash
own=%(own)s version=%(version)s content=%(content)s host=%(host)s port=%(port)d request=%(request)s secret=%(secret)s
fail() {
  echo "holdfast: worker $(uname -n): $*" >&2
  rm -rf "$new"
  exit 1
}
suits() {
  [ -x "$1" ] && [ "$("$1" -I -S -c 'import sys; print("%%d.%%d" %% sys.version_info[:2])' 2>/dev/null)" = "$version" ]
}
suits "$own" && exec "$own" "$@"
store="$HOME/.cache/holdfast/spark-environments"
{ [ -d "$HOME" ] && mkdir -p "$store" && [ -w "$store" ]; } 2>/dev/null || store="$PWD"
kept="$store/$content"
if [ ! -x "$kept/bin/python" ]; then
  new="$store/new-$content-$$"
  mkdir -p "$new/root" || fail "$store cannot be written to"
  { exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || fail "the Python of the run cannot be fetched from $host:$port"
  echo "$request" >&3
  read -r digest <&3
  cat <&3 >"$new/archive" || fail "$store cannot be written to"
  exec 3>&-
  actual="$({ printf %%s "$secret"; cat "$new/archive"; printf %%s "$secret"; } | sha256sum)"
  [ "${actual%%%% *}" = "$digest" ] || fail "the Python of the run did not arrive whole from $host:$port"
  tar -xzf "$new/archive" -C "$new/root" || fail "the Python of the run cannot be unpacked in $store"
  if [ -d "$new/root/base" ]; then
    mkdir "$new/root/bin" && ln -s ../base/bin/python3 "$new/root/bin/python"
    printf 'home = %%s\\ninclude-system-site-packages = false\\n' "$kept/base/bin" >"$new/root/pyvenv.cfg"
  fi
  mv -T "$new/root" "$kept" 2>/dev/null || [ -x "$kept/bin/python" ] || fail "$kept cannot be made"
  rm -rf "$new"
  find "$store" -mindepth 1 -maxdepth 1 -name '*-*' -mtime +60 -exec rm -rf {} + 2>/dev/null
fi
touch "$kept" 2>/dev/null
[ -d "$kept/base/lib" ] && export LD_LIBRARY_PATH="$kept/base/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
suits "$kept/bin/python" || fail "the Python of the run does not start here: $("$kept/bin/python" -V 2>&1)"
exec "$kept/bin/python" "$@"
"""
_sent = [0]


def sent_bytes() -> "int":
    """How much of the environment has been sent to workers."""
    return _sent[0]


def provide(folder: "str", host: "str", driver_port: "str") -> "str":
    """The program for the workers, in ``folder``; from now on the driver answers those that have no such Python."""
    from . import environment_archive

    server, port = _listen(host, driver_port)
    source = _Source(server, os.path.join(folder, "environment.tar.gz"))
    fields = {
        "own": shlex.quote(sys.executable),
        "version": "%d.%d" % sys.version_info[:2],
        "content": shlex.quote(environment_archive.content()),
        "host": shlex.quote(host),
        "port": port,
        "request": source.request,
        "secret": source.secret,
    }
    path = os.path.join(folder, NAME)
    _write(path, _PROGRAM % fields)
    # The driver starts Python workers too, for data sources of a script, under the same name in its own folder.
    try:
        _write(NAME, '#!/bin/sh\nexec %s "$@"\n' % shlex.quote(sys.executable))
        import atexit

        from . import forked

        atexit.register(forked.not_in_children(_remove), os.path.abspath(NAME))
    except OSError:
        pass  # the folder is read-only; most scripts have no data source of their own
    threading.Thread(target=source.serve, name="holdfast-environment", daemon=True).start()
    return path


class _Source(object):
    """Answers workers: those that send ``request`` get the archive. It is packed when the first one asks."""

    def __init__(self, server: "socket.socket", path: "str") -> "None":
        self.request, self.secret = (os.urandom(16).hex() for _ in range(2))
        self._server = server
        self._path = path
        self._digest = ""
        self._lock = threading.Lock()

    def serve(self) -> "None":
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: "socket.socket") -> "None":
        try:
            connection.settimeout(_ANSWER_S)
            with connection, connection.makefile("rb") as lines:
                request = lines.readline(_LONGEST_REQUEST).strip()
                if hmac.compare_digest(request, self.request.encode("ascii")):
                    self._send(connection)
        except (OSError, ValueError) as problem:
            sys.stderr.write("holdfast: the Python of the run was not sent to a worker: %s\n" % problem)

    def _send(self, connection: "socket.socket") -> "None":
        from . import environment_archive

        with self._lock:
            if not self._digest:
                environment_archive.pack(self._path)
                self._digest = _digest(self._path, self.secret.encode("ascii"))
        connection.sendall(("%s\n" % self._digest).encode("ascii"))
        with open(self._path, "rb") as source:
            for block in _blocks(source):
                connection.sendall(block)
                with self._lock:
                    _sent[0] += len(block)


def _listen(host: "str", driver_port: "str") -> "tuple[socket.socket, int]":
    """A free port, or, where the driver's port is fixed because of a firewall, one of those after it."""
    first = int(driver_port) if re.match(r"[0-9]{1,5}\Z", driver_port) else 0
    family, kind, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    for port in range(first + 1, first + 1 + _PORTS) if first else [0]:
        server = socket.socket(family, kind)
        try:
            server.bind((address[0], port))
            server.listen(64)
            return server, int(server.getsockname()[1])
        except OSError as problem:
            server.close()
            last = problem
    raise last


def _digest(path: "str", secret: "bytes") -> "str":
    import hashlib

    digest = hashlib.sha256(secret)
    with open(path, "rb") as source:
        for block in _blocks(source):
            digest.update(block)
    digest.update(secret)
    return digest.hexdigest()


def _blocks(source: "IO[bytes]") -> "Iterator[bytes]":
    return iter(lambda: source.read(_BLOCK), b"")


def _write(path: "str", text: "str") -> "None":
    with open(path, "w") as target:
        target.write(text)
    os.chmod(path, 0o700)


def _remove(path: "str") -> "None":
    try:
        os.unlink(path)
    except OSError:
        pass
