"""The data of a submit: hashed here, sent to a target once, named in plan and record by its hash.

On this machine a run uses the folder itself, in the state that was hashed. On another one the target keeps a copy by
content; that it has one is noted, so that the next submit asks nothing.
"""

from __future__ import annotations

import hashlib
import os

from holdfast import answers
from holdfast.engine.submit.upload import Shipment
from holdfast.errors import ConfigError, RunnerError, StoreError
from holdfast.record import Record
from holdfast.snapshot import data_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.engine.connection.channel import RunnerChannel
    from holdfast.model import Data, Json
    from holdfast.snapshot.data_tree import DataTree
    from holdfast.store.home import Home
    from holdfast.target_lookup import Target

    Tell = Callable[[int, int], None] | None

_TRIES = 4  # a file may change while it is sent, and a clean may run at the same time


class _Row(Record):
    """``taken`` is None for what the target has already, and for recorded content whose source is gone."""

    data: Data
    taken: DataTree | None
    state: str = ""


class SettledData:
    """All data of one run. ``remarks`` are warnings that came up while it was sent."""

    def __init__(
        self, home: Home, target: Target, wanted: Sequence[Data], on_hash: Tell, on_send: Tell, *, store: bool = True
    ) -> None:
        self._home = home
        self._target = target
        self._on_send = on_send or (lambda _done, _total: None)
        self._shared = target.compute.shared_data or ""
        self._is_here = not target.kind.is_remote
        self.remarks: list[str] = []
        self._rows = [self._take(data, on_hash, store) for data in wanted]

    def plan_rows(self) -> tuple[Json, ...]:
        return tuple(self._plan_row(row) for row in self._rows)

    def record_rows(self) -> list[Json]:
        """What the run's record says of its data."""
        rows: list[Json] = []
        for row in self._rows:
            size = {"files": row.taken.files, "bytes": row.taken.bytes} if row.taken is not None else {}
            fields = {**row.data._asdict(), "tree": _tree(row), "file": row.taken.file if row.taken else row.data.file}
            rows.append({**{name: value for name, value in fields.items() if value}, **size})
        return rows

    def send(self, channel: RunnerChannel, *, again: bool = False) -> None:
        """What the target lacks; ``again``: although it was noted that it has everything."""
        if not self._is_here:
            for row in self._rows:
                if _tree(row):
                    self._send(channel, row, again)

    def _take(self, data: Data, on_hash: Tell, store: bool) -> _Row:
        if data.path_on_target:
            return _Row(data, None)
        if data.tree and not os.path.exists(data.source):
            return self._without_source(data, "it is no longer there")
        state = self._state(data.source) if self._is_here else ""  # before the hash: later changes are noticed
        name = hashlib.sha256(os.fsencode(data.source)).hexdigest()[:32]
        objects, cache = self._home.objects if store else None, self._home.stat_cache(f"data-{name}")
        taken = data_tree.take(data.source, objects=objects, cache=cache, on_progress=on_hash)
        if data.tree and taken.tree != data.tree:
            return self._without_source(data, f"its content is {taken.tree[:12]} now")
        return _Row(data, taken, state)

    def _without_source(self, data: Data, why: str) -> _Row:
        """The recorded content cannot be sent again from here. Another machine may still have it."""
        if self._is_here:
            raise self._not_recorded(data, why)
        return _Row(data, None)

    def _not_recorded(self, data: Data, why: str) -> ConfigError:
        what = f"the data {data.name} is not what the run used"
        answer = f"the run used {data.tree[:12]}; {why}"
        return ConfigError(what, where=data.source, answer=answer, hint="restore it, or submit a new run")

    def _state(self, source: str) -> str:
        from holdfast.runner.store.data_state import fingerprint

        return fingerprint(os.fsencode(source))

    def _plan_row(self, row: _Row) -> Json:
        data, taken = row.data, row.taken
        plan: Json = {"name": data.name, "link": data.link}
        if data.path_on_target:
            return {**plan, "path": data.path_on_target}
        if self._is_here:
            return {**plan, "tree": _tree(row), "path": data.source, "state": row.state}
        file = taken.file if taken is not None else data.file
        return {**plan, "tree": _tree(row), "file": file, "shared": self._shared}

    def _send(self, channel: RunnerChannel, row: _Row, again: bool) -> None:
        tree = _tree(row)
        note = self._home.shipped(str(channel.hello()["store"]), f"data-{tree}")
        if not again and os.path.exists(note):
            return
        answer: Json = {}
        for attempt in range(_TRIES):
            answer = self._make(channel, row)
            if answers.text(answer, "state") == "here":
                remark = answers.optional_text(answer, "remark")
                self.remarks += [remark] if remark and remark not in self.remarks else []
                os.makedirs(os.path.dirname(note), 0o700, exist_ok=True)
                with open(note, "w", encoding="ascii"):
                    return
            if row.taken is None:
                raise self._not_recorded(row.data, "its source has changed, and the target does not have it")
            shipment = _DataShipment(self._home, channel, row.taken, self._shared, self._on_send)
            if self._shared and attempt == 0:
                shipment.send_trees(tree)  # by which the target verifies what another user has put there
            else:
                shipment.send_missing(tree)
        what, hint = f"the data {row.data.name} could not be stored on the target", "did it change while it was sent?"
        refused = answers.optional_text(answer, "refused") or "parts of it are missing there"
        raise StoreError(what, where=self._target.name, answer=refused, hint=f"{hint} submit again")

    def _make(self, channel: RunnerChannel, row: _Row) -> Json:
        try:
            return channel.ask("data", act="make", tree=_tree(row), name=row.data.name, data=self._shared)
        except RunnerError as error:
            if error.code != "unknown-verb":
                raise
            what = "the runner on this target does not support data sets"
            raise ConfigError(what, where=self._target.name, hint="use data: {path_on_target: ...}") from error


class _DataShipment(Shipment):
    """Reads files where they are; only trees come from the store."""

    copies = 1

    def __init__(
        self, home: Home, channel: RunnerChannel, taken: DataTree, shared: str, tell: Callable[[int, int], None]
    ) -> None:
        super().__init__(home, channel, "data", tell)
        self.fields = {"data": shared}
        self._folder = os.fsencode(taken.folder)
        self._paths = data_tree.paths(home.objects, taken.tree)

    def send_trees(self, tree: str) -> None:
        parts, _ = self._missing(tree)
        self._send([part for part in parts if part.is_tree], {})

    def _open(self, digest: str) -> int:
        path = self._paths.get(digest)
        if path is None:
            return super()._open(digest)
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            return os.open(os.path.join(self._folder, path), flags)
        except OSError as error:
            what = "a file of the data cannot be read any more"
            raise ConfigError(what, where=os.fsdecode(error.filename), answer=str(error.strerror)) from error


def _tree(row: _Row) -> str:
    return row.taken.tree if row.taken is not None else row.data.tree
