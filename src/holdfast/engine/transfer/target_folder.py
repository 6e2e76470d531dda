"""A shared folder of runs on a target, over our own connection: ``holdfast history push gpu1:team/history``.

What is read is brought into a temporary folder of the same form, where it is checked as a folder of this machine is.
Only names that were checked here become part of a path. What is written goes as objects do in a submit: only what is
missing, verified on arrival, and continued after a cut.
"""

from __future__ import annotations

import os
import re

from holdfast import answers
from holdfast.engine.submit.upload import Part, Shipment
from holdfast.errors import ConfigError, RunnerError, StoreError
from holdfast.runner import untrusted
from holdfast.runner.history import shared_part
from holdfast.runner.store.files import write_all
from holdfast.runner.store.remove_tree import remove_tree
from holdfast.store.shared import local_folder, shared_folder
from holdfast.store.staging import Staging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Json
    from holdfast.store.home import Home
    from holdfast.store.shared.shared_folder import Author, Content

_SPELLING = re.compile(r"([^/\\:]{2,}):(.*)", re.DOTALL)
_MOST_NAMES = 2_000_000
_MOST_LINES = 1 << 30  # bytes of runs' lines and of labels that are brought at once
_MOST_STORES = 10_000
_ASKED_AT_ONCE = 20_000  # files in one request
_LONGEST_TOLD = 200


def split(named: str) -> tuple[str, str] | None:
    """Target and path of ``gpu1:team/history``; None for a folder of this machine: as for scp, a slash comes first."""
    match = _SPELLING.fullmatch(named)
    return (match[1], match[2] or "~") if match else None


class TargetFolder:
    """``with TargetFolder(...) as folder:`` relative paths begin at the home folder of the user there."""

    copies = 2

    def __init__(self, home: Home, channel: RunnerChannel, target: str, path: str, *, create: bool = False) -> None:
        self._home, self._channel, self._target = home, channel, target
        self.name = f"{target}:{path}"
        facts = self._ask("open", folder=path)
        shown = {name: answers.optional_text(facts, name, target)[:_LONGEST_TOLD] for name in ("answer", "owner")}
        shared_folder.check({**shown, "state": answers.text(facts, "state", target)}, self.name, path, create=create)
        self._stage = Staging(home)
        self._stores = self._read_stores(facts)

    def __enter__(self) -> TargetFolder:
        self._stage.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stage.__exit__(*failure)

    def authors(self) -> list[Author]:
        return self._stores

    def names(self, author: Author, kind: str) -> list[str]:
        result: list[str] = []
        length = 32 if kind == shared_folder.RUNS else 64
        for header, _ in self._stream("names", store=author.id, kind=kind):
            if not header.get("end"):
                names = answers.texts(header, "names", self._target)
                wrong = next((name for name in names if not shared_part.is_hexadecimal(name, length)), None)
                if wrong is not None or not names or len(result) + len(names) > _MOST_NAMES:
                    raise answers.malformed("names", wrong, f"names of {length} hexadecimal digits", self._target)
                result += names
        return sorted(set(result))

    def bring(self, author: Author, kind: str, limits: Mapping[str, int], most: int | None = None) -> dict[str, str]:
        problems: dict[str, str] = {}
        left = _MOST_LINES if most is None and kind != shared_folder.OBJECTS else most
        wanted = [(name, limit) for name, limit in limits.items() if not os.path.exists(author.file(kind, name))]
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            incoming = _Incoming(author, kind, wanted[start : start + _ASKED_AT_ONCE], self._target, left)
            problems.update(self._receive(incoming))
            left = incoming.left
        return problems

    def objects(self, author: Author) -> Iterator[tuple[str, int, str]]:
        for header, _ in self._stream("hash", store=author.id):
            if header.get("end"):
                return
            for row in answers.listed(header, "objects", self._target):
                digest, size, problem = row if isinstance(row, list) and len(row) == 3 else (None, None, None)
                is_object = shared_part.is_hexadecimal(str(digest), 64) and answers.is_count(size)
                if not is_object or not isinstance(problem, str):
                    raise answers.malformed("objects", row, "the hash, size and problem of an object", self._target)
                yield str(digest), int(str(size)), problem[:_LONGEST_TOLD]

    def shown(self, author: Author) -> str:
        return f"{self.name}/{author.id}"

    def forget(self, author: Author) -> None:
        remove_tree(os.fsencode(os.path.join(author.path, shared_folder.OBJECTS)))

    def writer(self, store_id: str) -> TargetWriter:
        return TargetWriter(self._home, self._channel, self.name, store_id)

    def _read_stores(self, facts: Json) -> list[Author]:
        rows = answers.rows(facts, "stores", self._target)
        if len(rows) > _MOST_STORES:
            raise answers.malformed("stores", rows, f"a list of at most {_MOST_STORES} stores", self._target)
        result = {}
        for row in rows:
            try:
                store = untrusted.hexadecimal(row.get("id"), 32)
            except untrusted.Untrusted as error:
                raise answers.malformed("id", row.get("id"), "32 hexadecimal digits", self._target) from error
            owner = answers.optional_text(row, "owner", self._target)
            owner = owner if owner.isprintable() and len(owner) <= _LONGEST_TOLD else ""
            path = os.path.join(self._stage.path, store)
            result[store] = shared_folder.Author(store, path, owner, row.get("own") is True)
        return shared_folder.in_order(list(result.values()))

    def _receive(self, incoming: _Incoming) -> dict[str, str]:
        """Files come in the order in which they were asked for."""
        problems: dict[str, str] = {}
        try:
            fields = {"store": incoming.author.id, "kind": incoming.kind, "files": incoming.files}
            for header, payload in self._stream("read", **fields):
                if not header.get("end"):
                    problems.update(incoming.take(header, payload))
        finally:
            incoming.close()
        return problems

    def _ask(self, act: str, **fields: object) -> Json:
        try:
            return self._channel.ask("history", act=act, **fields)
        except RunnerError as error:
            if error.code != "unknown-verb":
                raise
            what = "the runner on this target does not support shared folders of runs"
            raise ConfigError(what, where=self._target, hint="mount the folder and name its path here") from error

    def _stream(self, act: str, **fields: object) -> Iterator[tuple[Json, bytes]]:
        return self._channel.stream("history", act=act, **fields)


class _Incoming:
    """Files that are asked for together and arrive in this order, in pieces."""

    def __init__(self, author: Author, kind: str, files: list[tuple[str, int]], target: str, left: int | None) -> None:
        self.author, self.kind, self.files, self.left = author, kind, files, left
        self._target = target
        self._number, self._at = -1, 0
        self._fd = -1

    def take(self, header: Json, payload: bytes) -> dict[str, str]:
        """Write a piece; returns, by name, why a file cannot be read there."""
        number = answers.number(header, "file", self._target)
        if not self._number <= number < len(self.files):
            raise answers.malformed("file", number, "the number of a file of the request", self._target)
        name, limit = self.files[number]
        problem = answers.optional_text(header, "problem", self._target)
        if problem and (number > self._number or self._fd >= 0):
            self.close()
            self._number = number
            return {name: f"{self.kind}/{name}: {problem[:_LONGEST_TOLD]}"}
        if number > self._number or self._fd < 0:
            self._begin(number, name)
        if answers.number(header, "at", self._target) != self._at or self._at + len(payload) > limit + 1:
            raise answers.malformed("at", header.get("at"), "where the next piece begins", self._target)
        if self.left is not None:
            self.left -= len(payload)
            if self.left < 0:
                if self.kind != shared_folder.OBJECTS:
                    raise answers.malformed("at", header.get("at"), f"within {_MOST_LINES} bytes in all", self._target)
                raise untrusted.TooLargeError("its code has more folders than are read")
        write_all(self._fd, payload)
        self._at += len(payload)
        if not payload:
            self.close()  # that was its end
        return {}

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _begin(self, number: int, name: str) -> None:
        if number == self._number:
            raise answers.malformed("file", number, "a file that has not come yet", self._target)
        self.close()
        path = self.author.file(self.kind, name)
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        self._fd, self._number, self._at = os.open(path, flags, 0o600), number, 0


class TargetWriter:
    def __init__(self, home: Home, channel: RunnerChannel, name: str, store_id: str) -> None:
        self._home, self._channel, self._name, self._store_id = home, channel, name, store_id

    def __enter__(self) -> TargetWriter:
        self._ask("begin", store=self._store_id)
        return self

    def __exit__(self, *_: object) -> None:
        """The part is closed with the connection."""

    def send(self, contents: list[Content], on_bytes: Callable[[int], object]) -> dict[str, str]:
        shipment = _ContentShipment(self._home, self._channel, contents, on_bytes)
        problems = shipment.send_lacking()
        absent, answer = shipment.lacks([content.digest for content in contents])
        if any(content.digest in absent and content.digest not in problems for content in contents):
            refused = answers.optional_text(answer, "refused") or "parts of it did not arrive"
            hint = "free disk space there, or check that you may write to this folder; then push again"
            raise StoreError("the shared folder cannot be written", where=self._name, answer=refused, hint=hint)
        return problems

    def publish(self, runs: dict[str, Content], labels: list[Content]) -> None:
        self.send([*runs.values(), *labels], int)
        digests = {uid: content.digest for uid, content in runs.items()}
        self._ask("publish", runs=digests, labels=[content.digest for content in labels])

    def remove(self, kind: str, name: str) -> None:
        self._ask("remove", kind=kind, name=name)

    def _ask(self, act: str, **fields: object) -> None:
        answer = self._channel.ask("history", act=act, **fields)
        state = answers.text(answer, "state")
        if state not in ("open", "done"):
            raise local_folder.cannot_write(state, self._name, answers.optional_text(answer, "answer"))


class _ContentShipment(Shipment):
    """Sends files from where they are, and lines from memory."""

    copies = 1
    full_hint = "free disk space there"

    def __init__(
        self, home: Home, channel: RunnerChannel, contents: list[Content], on_bytes: Callable[[int], object]
    ) -> None:
        super().__init__(home, channel, "history", self._count)
        self.fields = {"history": True}
        self._contents = {content.digest: content for content in contents}
        self._on_bytes, self._counted = on_bytes, 0

    def send_lacking(self) -> dict[str, str]:
        """Returns, by digest, why some cannot be sent; nothing of those is."""
        absent, answer = self.lacks(list(self._contents))
        problems, parts = {}, []
        for digest in self._contents:
            if digest not in absent:
                continue
            try:
                for _ in local_folder.pieces(self._contents[digest]):
                    pass
                parts.append(Part(digest, "", self._contents[digest].size))
            except local_folder.Changed as error:
                problems[digest] = str(error)
        self._check_room(parts, answer.get("free"))
        self._send(parts, self.begun(answer))
        return problems

    def _count(self, done: int, _total: int) -> None:
        self._on_bytes(done - self._counted)
        self._counted = done

    def _open(self, digest: str) -> int:
        content = self._contents[digest]
        if content.path:
            return untrusted.open_file(content.path, follow=False)
        from tempfile import TemporaryFile

        with TemporaryFile() as copy:
            copy.write(content.data)
            copy.seek(0)
            return os.dup(copy.fileno())
