"""Conda packages without conda: solved and installed by py-rattler."""

from __future__ import annotations

import asyncio
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rattler import (
    Channel,
    ChannelPriority,
    Gateway,
    GenericVirtualPackage,
    MatchSpec,
    PackageName,
    PackageRecord,
    RepoDataRecord,
    Subdir,
    Version,
)
from rattler import install as rattler_install
from rattler import solve as rattler_solve
from rattler.exceptions import (
    FetchRepoDataError,
    GatewayError,
    InstallerError,
    InvalidChannelError,
    InvalidMatchSpecError,
    SolverError,
)
from rattler.install import InstallerReporter
from rattler.package.build_string import BuildString
from rattler.package_cache import PackageCache

from .failure import Failed, from_output
from .scrubbing import forget_channels

if TYPE_CHECKING:
    from .report import Report

Json = dict[str, Any]

# conda's own words for "what the program brings along".
DEFAULTS = ("https://repo.anaconda.com/pkgs/main", "https://repo.anaconda.com/pkgs/r")


class Installed(NamedTuple):
    download_s: float
    link_s: float


def solve(spec: Json, facts: Json, cache: str) -> list[Json]:
    """The packages of a lock, chosen for the target's virtual packages, never for this machine's."""
    question = _Question(spec, facts, cache)
    try:
        return sorted((_locked(record) for record in asyncio.run(question.answer())), key=lambda each: each["name"])
    except SolverError as error:
        raise asyncio.run(question.refusal(str(error))) from None
    except (GatewayError, FetchRepoDataError) as error:
        failed = from_output([str(error)], ", ".join(question.urls), otherwise="unreachable")
        failed.what = f"the package list of a channel cannot be read: {failed.what}"
        raise failed from None
    finally:
        forget_channels(question.notes, question.urls)


def install(lock: Json, request: Json, report: Report) -> Installed:
    """Link the lock's packages into ``beside``, made for the path that it will have afterwards."""
    if request.get("offline") and (absent := not_in_cache(lock["conda"], request["cache"])):
        what = f"offline, and not in the cache: {', '.join(package['url'].rsplit('/', 1)[1] for package in absent)}"
        raise Failed("unreachable", what, hint="run it once with a network connection")
    progress = _Progress(lock["conda"], report)  # type: ignore[abstract]  # its methods are empty, not abstract
    try:
        asyncio.run(_link([_record(package) for package in lock["conda"]], lock["platform"], request, progress))
    except InstallerError as error:
        raise from_output([str(error)], _named_in(str(error), lock["conda"])) from None
    return progress.times()


def not_in_cache(packages: list[Json], cache: str) -> list[Json]:
    """Those that would have to be fetched."""
    folder = os.path.join(cache, "conda")
    return asyncio.run(_absent(packages, folder)) if os.path.isdir(folder) else packages


class _Question:
    """What is asked of the channels."""

    def __init__(self, spec: Json, facts: Json, cache: str) -> None:
        self.urls = [url for name in spec.get("channels") or ["defaults"] for url in _channel_urls(name)]
        self.wanted = [_match_spec(text) for text in _with_python(spec)]
        self.platforms = [Subdir(facts["platform"]), Subdir("noarch")]
        self.virtual = {name: version for name, version in facts.get("virtual", {}).items() if version is not None}
        self.notes = os.path.join(cache, "repodata")
        self.gateway = Gateway(cache_dir=Path(self.notes))

    async def answer(self) -> list[RepoDataRecord]:
        """By strict priority of the channels, and where that has no answer, by conda's looser old rule."""
        try:
            return await self._solve(ChannelPriority.Strict)
        except SolverError:
            if len(self.urls) == 1:
                raise
            return await self._solve(ChannelPriority.Disabled)

    async def _solve(self, priority: ChannelPriority) -> list[RepoDataRecord]:
        virtual = [_virtual_package(name, version) for name, version in self.virtual.items()]
        return await rattler_solve(
            self._channels(),
            self.wanted,
            self.gateway,
            self.platforms,
            virtual_packages=virtual,
            channel_priority=priority,
        )

    def _channels(self) -> list[Channel]:
        try:
            return [Channel(url) for url in self.urls]
        except InvalidChannelError as error:
            raise Failed("unsatisfiable", str(error), where=", ".join(self.urls)) from None

    async def refusal(self, reason: str) -> Failed:
        reason = _plain(reason)
        hint = await self._nearest_python() or self._missing_virtual(reason)
        hint = hint or "loosen one of the requirements named above, or add a channel that has them"
        return Failed("unsatisfiable", reason, where=", ".join(self.urls), hint=hint)

    async def _nearest_python(self) -> str:
        pins = [spec for spec in self.wanted if str(spec).startswith("python ")]
        specs = [MatchSpec("python")]
        answers = await self.gateway.query(self._channels(), self.platforms, specs, recursive=False)
        pythons = [record for records in answers for record in records]
        if not pins or not pythons or any(spec.matches(record) for spec in pins for record in pythons):
            return ""
        pinned = _numbers(str(pins[0]))
        nearest = min({str(record.version) for record in pythons}, key=lambda text: _distance(_numbers(text), pinned))
        return f"python={nearest} is the nearest available; holdfast env fix writes it"

    def _missing_virtual(self, reason: str) -> str:
        missing = re.search(r"(__\w+)[^,]*, for which no candidates", reason)
        if not missing:
            return ""
        offered = self.virtual.get(missing[1])
        has = f"the target has {missing[1]} {offered}" if offered else f"the target has no {missing[1]}"
        return f"{has}: choose a build that needs less, or another target"


def _channel_urls(name: str) -> tuple[str, ...]:
    if name == "nodefaults":
        return ()
    return DEFAULTS if name == "defaults" else (name,)


def _with_python(spec: Json) -> list[str]:
    """What the conda part asks for, with the Python that everything else needs."""
    wanted = list(spec.get("conda") or ())
    if any(re.match(r"(?:[^\s:]+::)?python(?![\w.-])", text) for text in wanted):
        return wanted
    pin = (spec.get("python") or "").strip()
    return [*wanted, f"python {pin}" if not pin or pin[0] in "=<>!~" else f"python={pin}"]


def _match_spec(text: str) -> MatchSpec:
    try:
        return MatchSpec(text.strip(), strict=False)
    except InvalidMatchSpecError as error:
        hint = "write it as name=1.2 or name>=1.2,<2"
        raise Failed("unsatisfiable", f"conda cannot read this: {error}", where=text, hint=hint) from None


def _virtual_package(name: str, version: str) -> GenericVirtualPackage:
    # __archspec has a name where others have a version: it stands in the build string.
    number, build = (version, "0") if version[:1].isdigit() else ("1", version)
    return GenericVirtualPackage(PackageName(name), Version(number), BuildString(build))


def _plain(reason: str) -> str:
    text = re.sub(r"[│├└─]+", " ", reason.partition("because of: ")[2] or reason)
    return " ".join(text.split())


def _numbers(text: str) -> list[int]:
    numbers = [int(number) for number in re.findall(r"\d+", text)[:3]]
    return numbers + [0] * (3 - len(numbers))


def _distance(numbers: list[int], other: list[int]) -> tuple[list[int], list[int]]:
    """How far two versions are apart, the greater version first among equals."""
    return [abs(a - b) for a, b in zip(numbers, other, strict=True)], [-number for number in numbers]


def _locked(record: RepoDataRecord) -> Json:
    if record.sha256 is None:
        hint = "the file cannot be verified without it: use a channel that provides sha256 sums"
        raise Failed("hash", f"the channel gives no sha256 of {record.file_name}", where=record.url, hint=hint)
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "build": str(record.build),
        "url": record.url,
        "sha256": record.sha256.hex(),
        "size": record.size or 0,
    }


def _record(package: Json) -> RepoDataRecord:
    channel, subdir, name = package["url"].rsplit("/", 2)
    build, digest = BuildString(package["build"]), bytes.fromhex(package["sha256"])
    record = PackageRecord(
        package["name"], package["version"], build, 0, subdir, sha256=digest, size=package.get("size")
    )
    return RepoDataRecord(record, name, package["url"], channel)


async def _absent(packages: list[Json], folder: str) -> list[Json]:
    there = await PackageCache(folder).index()
    return [package for package in packages if not there.contains_record(_record(package))]


async def _link(records: list[RepoDataRecord], platform: str, request: Json, progress: _Progress) -> None:
    packages = PackageCache(os.path.join(request["cache"], "conda"))
    await rattler_install(
        records,
        request["beside"],
        platform=Subdir(platform),
        reporter=progress,
        alternative_target_prefix=request["prefix"],
        package_cache=packages,
    )


def _named_in(text: str, packages: list[Json]) -> str:
    return next((package["url"] for package in packages if package["url"].rsplit("/", 1)[1] in text), "")


class _Progress(InstallerReporter):
    """Progress callbacks for py-rattler, called by its threads."""

    def __init__(self, packages: list[Json], report: Report) -> None:
        self._total = len(packages)
        self._report = report
        self._started = self._fetched_at = time.monotonic()
        self._fetched = self._linked = 0
        self._names: dict[int, str] = {}
        self._bytes: dict[int, int] = {}

    def times(self) -> Installed:
        return Installed(self._fetched_at - self._started, time.monotonic() - self._fetched_at)

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: int | None) -> None:
        self._bytes[download_idx] = min(progress, total or progress)
        self._tell("download", download_idx, self._fetched)

    def on_populate_cache_complete(self, cache_entry: int) -> None:
        self._fetched += 1
        self._fetched_at = time.monotonic()
        self._tell("download", cache_entry, self._fetched)

    def on_link_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_link_complete(self, index: int) -> None:
        self._linked += 1
        self._tell("link", index, self._linked)

    def _tell(self, phase: str, operation: int, done: int) -> None:
        self._report.progress(phase, self._names.get(operation, ""), done, self._total, sum(self._bytes.values()))
