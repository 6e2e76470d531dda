"""What ``ssh -N -L PORT:SOCKET`` does: a port of this machine that leads to the socket of ``holdfast ui --socket``."""

from __future__ import annotations

import contextlib
import socket
import threading


class Tunnel:
    """``cut`` breaks all connections and refuses new ones until ``heal``; the port stays."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Tunnel:
        return self

    def __exit__(self, *_: object) -> None:
        # A listener that is only closed keeps the thread in its accept.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                with self._lock:
                    if self._is_cut:
                        near.close()
                        far.close()
                        continue
                    far.connect(self._path)
                    self._open |= {near, far}
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(source, target), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(65536):
                target.sendall(block)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()
