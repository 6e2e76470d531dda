"""Every file of a store damaged at any byte: cut, a bit flipped, zeros or garbage from there on, as after a power cut.

``Stage`` has a sound store and commands that cost milliseconds. ``judge`` runs the commands on a damaged one and tells
what is wrong: D1 to D5. Cases come from a seed, so that each of them can be had again.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from conftest import Desk, Result
from forkserver import HUNG, Forkserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SCRIPT = """
import os, sys
open({witness!r}, 'a').write(os.environ['HOLDFAST_RUN_UID'] + '\\n')
import holdfast
for step in range(5): holdfast.log('loss', 1 / (step + 1))
holdfast.log('words', 'three plain words')
print('said once')
open('outputs/model', 'w').write('weights')
sys.exit(int(sys.argv[1]))
"""
RUNS = 5
KINDS = ("cut", "flip", "zeros", "garbage")
LOOKS = (
    ("runs",),
    ("info", "-r", "1"),
    ("info", "-r", "2", "-o", "table"),
    ("history", "list", "--where", "loss < 1", "--sort", "-loss"),
    ("history", "metrics", "-r", "1"),
    ("du",),
    ("status", "-r", "3"),
    ("logs", "-r", "1"),
    ("asset", "list"),
    ("history", "undelete"),
    ("store", "prune", "--dry-run"),
    ("config",),
)
_SKIPPED = {
    "objects",
    "runner",
    "locks",
    "envs",
    "saved",
    "__pycache__",
    "work",
    "workspace",
    "shims",
    "packages",
    "builder",
}
# What these files say is needed for every command, or chosen by the user: a refusal with the reason is right.
_NEEDED = {"store.json": 74, "settings.json": 65}


class Case(NamedTuple):
    file: str  # below the store
    kind: str
    at: int
    keep_index: bool
    submits: bool
    look: tuple[str, ...]
    verifies: bool = True


class Stage(Desk):
    """Ended runs with one of everything, one of them imported; ``put_back`` makes the store sound again."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.witness = place / "witness"
        self.sound = place / "sound"
        self._folders: list[tuple[Path, Path]] = []  # of the sound store and where they belong
        self.server = Forkserver(self.env, self.project)
        self.script(SCRIPT.format(witness=str(self.witness)))
        self._furnish()
        shutil.copytree(self.home, self.sound, symlinks=True)
        for folder in [self.sound, *(path for path in self.sound.rglob("*") if path.is_dir())]:
            below = folder.relative_to(self.sound)
            if below.parts[:1] not in (("objects",), ("runner",)):
                self._folders.append((folder, self.home / below))
        self.runs = {row["run_number"]: row for row in self.holdfast("history", "list", "-o", "json").json}
        assert len(self.runs) == RUNS

    def holdfast(self, *words: str, **_: Any) -> Result:
        return Result(*self.server.run(*words, limit=60 if words[:2] == ("store", "verify") else 20))

    def starts(self) -> list[str]:
        return self.witness.read_text().split()

    def put_back(self) -> None:
        """Only what differs by size or time is copied; content that is named by its hash stays."""
        for sound, live in self._folders:
            _put_back_folder(sound, live)
        for sound, live in reversed(self._folders):
            shutil.copystat(sound, live)

    def files(self) -> list[str]:
        """Every file whose loss could change what a command says."""
        found = [path for path in self.sound.rglob("*") if path.is_file() and not path.is_symlink()]
        names = [str(path.relative_to(self.sound)) for path in found if path.stat().st_size]
        return sorted(name for name in names if not _SKIPPED & set(Path(name).parts[:-1]))

    def cases(self, count: int, seed: int) -> Iterator[Case]:
        """Each file in its turn, at a random byte; small counts take every kind of damage too."""
        rng = random.Random(seed)
        files = self.files()
        for number in range(count):
            file = files[number % len(files)]
            size = (self.sound / file).stat().st_size
            at = rng.randrange(size)
            if rng.random() < 0.3:
                at = rng.choice(_line_ends(self.sound / file) or [at])
            kind = rng.choice(("cut", *KINDS))
            look = LOOKS[number % len(LOOKS)]
            yield Case(file, kind, at, keep_index=rng.random() < 0.5, submits=number % 12 == 0, look=look)

    def cuts(self) -> Iterator[Case]:
        """Each file cut at each byte, with and without the index at the ends of lines, elsewhere in turn.

        Files of the same name and content, such as the packages of each run, are cut once. A cut of the index, which is
        made anew, is verified at every sixteenth byte only.
        """
        seen: set[tuple[str, bytes]] = set()
        looks = itertools.cycle(LOOKS)
        for file in sorted(self.files(), key=_is_index):
            content = (self.sound / file).read_bytes()
            if (Path(file).name, content) in seen:
                continue
            seen.add((Path(file).name, content))
            for at in range(len(content)):
                at_line_end = b"\n" in content[max(0, at - 1) : at + 1]
                for keep_index in (True, False):
                    if keep_index if _is_index(file) else at_line_end or keep_index == (at % 2 == 0):
                        verifies = not _is_index(file) or at % 16 == 0
                        yield Case(file, "cut", at, keep_index, submits=False, look=next(looks), verifies=verifies)

    def close(self) -> None:
        self.server.__exit__(None, None, None)

    def _furnish(self) -> None:
        for words in ("init -q", "add train.py", "-c user.name=ada -c user.email=ada@example.org commit -qm first"):
            subprocess.run(["git", *words.split()], cwd=self.project, env=self.env, check=True)
        (self.project / "train.py").write_text((self.project / "train.py").read_text() + "# changed\n")
        for code in ("0", "3", "0"):
            assert self.submit("train.py", code).code == int(code)
        self.script("import time; time.sleep(600)", "long.py")
        assert self.submit("--no-wait", "long.py").code == 0
        assert self.holdfast("cancel", "-r", "4").code == 0
        self.wait_for_end("4")
        for words in ("history tag -r 1 kept", "history note -r 1 first", "config keepRuns 900d", "store prune"):
            assert self.holdfast(*words.split()).code == 0, words
        assert self.holdfast("history", "promote", "-r", "1", "-ap", "outputs/model", "-n", "model").code == 0
        self._import_run()
        assert self.holdfast("store", "verify").code == 0

    def _import_run(self) -> None:
        """A run of another store, whose files and packages came in an archive."""
        other = {"HOLDFAST_HOME": str(self.home.with_name("other store"))}
        archive = str(self.home.with_name("runs.zip"))
        assert super().holdfast("submit", "-c", "local", "train.py", "0", env=other).code == 0
        assert super().holdfast("history", "export", "-r", "last", "--to", archive, env=other).code == 0
        assert self.holdfast("history", "import", archive).code == 0


class Outcome(NamedTuple):
    """What was seen after one damage."""

    results: dict[tuple[str, ...], Result]
    listed: list[dict[str, Any]] | None
    starts: list[str]
    submitted: bool


def judge(stage: Stage, case: Case, meddle: Callable[[Stage], None] | None = None) -> list[str]:
    """``meddle`` plants a bug: it runs after the damage, as a command that does something wrong would."""
    stage.put_back()
    damage(stage.home / case.file, case)
    results: dict[tuple[str, ...], Result] = {}
    before = stage.starts()
    if case.verifies:
        results["store", "verify"] = stage.holdfast("store", "verify")
    if not case.keep_index:
        for path in stage.home.glob("index.sqlite*"):
            path.unlink()
    if meddle is not None:
        meddle(stage)
    results[case.look] = stage.holdfast(*case.look)
    if case.submits:
        results["submit",] = stage.submit("train.py", "0")
    listed = stage.holdfast("history", "list", "-o", "json")
    results["history", "list"] = listed
    rows = listed.json if listed.code == 0 else None
    outcome = Outcome(results, rows, stage.starts()[len(before) :], case.submits)
    found = [(name, wrong) for name, oracle in ORACLES.items() for wrong in oracle(stage, case, outcome)]
    return [f"{name}: {wrong} after {case}" for name, wrong in found]


def damage(path: Path, case: Case) -> None:
    whole = path.read_bytes()
    rng = random.Random(case.at)
    rest = len(whole) - case.at
    tails = {
        "cut": b"",
        "flip": bytes([whole[case.at] ^ (1 << rng.randrange(8))]) + whole[case.at + 1 :],
        "zeros": bytes(rest),
        "garbage": rng.randbytes(rest),
    }
    mode = path.stat().st_mode
    path.chmod(0o600)
    path.write_bytes(whole[: case.at] + tails[case.kind])
    path.chmod(mode)


def no_command_fails_by_a_bug(_stage: Stage, case: Case, outcome: Outcome) -> Iterator[str]:
    for words, result in outcome.results.items():
        if result.code == HUNG:
            yield f"{words} hung"
            continue
        refused = words == ("history", "list") and result.code not in (0, _NEEDED.get(case.file))
        if result.code == 70 or result.code < 0 or "Traceback" in result.err or refused:
            yield f"{words} says {result}"


def nothing_is_started_again(_stage: Stage, _case: Case, outcome: Outcome) -> Iterator[str]:
    wanted = outcome.submitted and outcome.results["submit",].code == 0
    if len(outcome.starts) > wanted:
        yield f"started: {outcome.starts}"


def all_runs_are_shown(stage: Stage, case: Case, outcome: Outcome) -> Iterator[str]:
    """The runs whose files are sound as they were; the damaged one in some way."""
    if outcome.listed is None:
        return
    shown = {row["uid"]: row for row in outcome.listed}
    for row in stage.runs.values():
        now = shown.get(row["uid"])
        if now is None:
            yield f"run {row['run_number']} is not shown"
        elif row["uid"] not in case.file and (now["status"], now["run_number"]) != (row["status"], row["run_number"]):
            yield f"run {row['run_number']} is told as {now['status']}, number {now['run_number']}"


def no_number_is_given_twice(_stage: Stage, _case: Case, outcome: Outcome) -> Iterator[str]:
    numbers = [row["run_number"] for row in outcome.listed or () if row["run_number"] is not None]
    if len(set(numbers)) != len(numbers):
        yield f"numbers {sorted(numbers)}"
    ids = [row["run_id"] for row in outcome.listed or ()]
    if len(set(ids)) != len(ids):
        yield f"ids {sorted(ids)}"


def verify_finds_what_changed(stage: Stage, case: Case, outcome: Outcome) -> Iterator[str]:
    """Of the files of runs. A last line that is missing as a whole cannot be missed in a file that may have none.

    An ``alive`` without a line is what older versions wrote.
    """
    if not case.file.startswith("runs/") or outcome.results["store", "verify"].code == 74:
        return
    whole = (stage.sound / case.file).read_bytes()
    lacks_whole_lines = case.kind == "cut" and (case.at == 0 or whole[case.at - 1 : case.at] == b"\n")
    if lacks_whole_lines and case.file.endswith(("client.jsonl", "control.jsonl", "alive")):
        return
    if case.kind != "zeros" or whole[case.at :].strip(b"\0"):
        yield "verify says that all is well"


ORACLES: dict[str, Callable[[Stage, Case, Outcome], Iterator[str]]] = {
    "D1": no_command_fails_by_a_bug,
    "D2": nothing_is_started_again,
    "D3": all_runs_are_shown,
    "D4": no_number_is_given_twice,
    "D5": verify_finds_what_changed,
}


def _put_back_folder(sound: Path, live: Path) -> None:
    if not live.is_dir():
        live.unlink(missing_ok=True)
        live.mkdir()
    there = {entry.name: entry for entry in os.scandir(live)}
    for entry in os.scandir(sound):
        now = there.pop(entry.name, None)
        if entry.is_dir(follow_symlinks=False):
            continue
        if now is not None and _state(now) == _state(entry):
            continue
        if now is not None:
            _remove(now)
        shutil.copy2(entry.path, live / entry.name, follow_symlinks=False)
    for extra in there.values():
        _remove(extra)


def _state(entry: os.DirEntry[str]) -> tuple[int, int, int]:
    found = entry.stat(follow_symlinks=False)
    return found.st_mode, found.st_size, found.st_mtime_ns


def _remove(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)


def _is_index(file: str) -> bool:
    return file.startswith("index.sqlite")


def _line_ends(path: Path) -> list[int]:
    data = path.read_bytes()
    return [at + 1 for at, byte in enumerate(data[:-1]) if byte == 10][:200]
