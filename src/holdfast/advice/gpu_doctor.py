"""Explains why a run left its GPU idle or half idle: known causes, each with the line to change. Pure."""

from __future__ import annotations

import re

from holdfast.advice import script_source
from holdfast.environments import gpu
from holdfast.environments.spec import Facts
from holdfast.record import Record
from holdfast.runner import untrusted
from holdfast.runner.gpu import probe_verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.model import Json

LOW_PERCENT = 40.0
LONG_ENOUGH_S = 30
BUSY_CORES = 0.8
MOST_WORKERS = 8
# The first drivers for every minor version of a CUDA.
DRIVERS = {11: "450.80", 12: "525.60", 13: "580.65"}
# The last releases for an older CUDA.
_OLDER = {
    "tensorflow": {11: "tensorflow[and-cuda]==2.14.*", 10: "tensorflow==2.3.*"},
    "jax": {12: "jax[cuda12]", 11: "jax[cuda11_pip]==0.4.25"},
}
_INDEX = "https://download.pytorch.org/whl"
_DECLARING = (".txt", ".in", ".yml", ".yaml", ".toml")
_LINE = re.compile(r"""^[\s"'-]*(?P<name>[A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?P<spec>[=<>!~][^#;"']*)?(?=[\s"',;#]|$)""")


class Finding(Record):
    """``where``: FILE:LINE, or what else is meant; ``fix``: what to write there, or to do."""

    where: str
    what: str
    fix: str


def findings(receipt: Json | None, check: Json | None, files: Mapping[str, str], *, compute: str = "") -> list[Finding]:
    """``check``: the event ``gpu_check``; ``files``: texts of the snapshot; ``compute``: its target's file."""
    verdict = str((receipt or {}).get("verdict") or "")
    scripts = {name: text for name, text in files.items() if name.endswith(".py")}
    if verdict == "used":
        return list(_starved(receipt or {}, scripts))
    if verdict not in ("idle", "absent", ""):
        return []
    result = list(_unreached(check or {}, files, compute))
    result = result or list(_unsuited(_facts(check), files))
    return result or (list(_unused(_facts(check), scripts)) if verdict == "idle" else [])


def is_starved(receipt: Json) -> bool:
    """Whether the cards that were used had little to do, over a time that is long enough to tell."""
    shares = _shares(receipt)
    return bool(shares) and max(shares) < LOW_PERCENT


def _shares(receipt: Json) -> list[float]:
    """Percent of the time that each card was busy since the run first opened it: imports and loading do not count."""
    percents = []
    for row in _objects(receipt.get("gpus")):
        busy, opened = row.get("busy_s"), row.get("context_after_s")
        if row.get("used") and isinstance(busy, (int, float)) and isinstance(opened, (int, float)):
            length = _number(receipt.get("seconds")) - opened
            if length < LONG_ENOUGH_S:
                return []
            percents.append(100 * busy / length)
    return percents


def _starved(receipt: Json, scripts: Mapping[str, str]) -> Iterator[Finding]:
    if not is_starved(receipt):
        return
    cores, percent = _number(receipt.get("cores")), _number(receipt.get("cpu_percent"))
    is_busy = cores * percent / 100 > BUSY_CORES
    cards = max(1, sum(bool(row.get("used")) for row in _objects(receipt.get("gpus"))))
    workers = int(max(1, min(MOST_WORKERS, cores // cards))) if cores else 4
    loader = script_source.slow_loader(scripts, workers)
    waits = f"the GPU was busy {max(_shares(receipt)):.0f} % of the time"
    if is_busy:
        waits += f" while {cores * percent / 100:.1f} of {cores:.0f} processors were"
    if loader:
        what = f"{waits}; this DataLoader prepares batches in the training process, and the GPU waits for it"
        yield Finding(loader.where, what, f"write {loader.new}")
    elif is_busy:
        what = f"{waits}; the script probably spends its time between training steps"
        yield Finding("the script", what, "prepare batches in worker processes, or prefetch them")


def _unreached(check: Json, files: Mapping[str, str], compute: str) -> Iterator[Finding]:
    facts = _facts(check)
    if check.get("ok") is not False or (facts and facts["devices"]):
        return
    why, fix = str(check.get("why")), str(check.get("fix"))
    if facts and facts["visible"] is not None:
        for name, number, line in _lines(files, (".runconfig", ".compute")):
            if re.match(r"""\s*-?\s*["']?CUDA_VISIBLE_DEVICES\b""", line):
                yield Finding(f"{name}:{number}", why, "delete this line")
                return
    for name, number, line in _lines(files, (".compute",)):
        if name == compute and re.match(r"\s*nvidiaDocker\s*:\s*(false|no|off)\b", line, re.IGNORECASE):
            yield Finding(f"{name}:{number}", why, "write nvidiaDocker: true")
            return
    yield Finding("the target", why, fix)


def _unsuited(facts: Json, files: Mapping[str, str]) -> Iterator[Finding]:
    """Packages of the run that cannot use the card. Where others can, these may be there for other reasons."""
    packages = _objects(facts.get("packages"))
    cuda = str(facts.get("cuda") or "")
    wrong = [package for package in packages if _is_unsuited(package, cuda)]
    if len(wrong) < len(packages):
        return
    for package in wrong:
        name = str(package["name"])
        what = str(probe_verdict.judge({**_WELL, **facts, "packages": [package]})["why"])
        finding = _torch(package, what, facts, files) if name == "torch" else _other(package, what, cuda, files)
        yield finding._replace(fix=finding.fix + _or_driver(package, cuda))


def _is_unsuited(package: Json, cuda: str) -> bool:
    return not probe_verdict.judge({**_WELL, "cuda": cuda or None, "packages": [package]})["ok"]


def _torch(package: Json, what: str, facts: Json, files: Mapping[str, str]) -> Finding:
    wanted, build = _torch_for(facts, str(package["version"]).partition("+")[0])
    if not build:
        return Finding("the target", what, "no build of torch can use this GPU with its driver; install a newer one")
    for name, number, line in _lines(files, _DECLARING):
        new = re.sub(r"/whl/(cpu|cu\d+)\b", f"/whl/{build}", line)
        if new != line:
            return Finding(f"{name}:{number}", what, f"write {new.strip()}")
        if re.match(r"\s*-\s*cpuonly\b", line):
            return Finding(f"{name}:{number}", what, "delete this line")
    install = f"pip install --index-url {_INDEX}/{build} '{wanted}'"
    declaration = _declared(files, ("torch", "pytorch", "pytorch-cpu"))
    if declaration is None:
        return Finding("the environment", what, install)
    is_plain = wanted.startswith("torch==") and "+" in (declaration[1]["spec"] or "")
    return Finding(declaration[0], what, f"write {wanted}" if is_plain else install)


def _torch_for(facts: Json, version: str) -> tuple[str, str]:
    """What to ask for, and the build of it that the driver and the cards can run; none where there is none."""
    cards = _objects(facts.get("devices"))
    capabilities = tuple(f"{card.get('major')}.{card.get('minor')}" for card in cards)
    target = Facts(virtual={"__cuda": str(facts.get("cuda") or "") or None}, capabilities=capabilities)
    build = gpu.torch_backend(target, f"=={version}") if version else ""
    if build not in ("", "cpu"):
        return f"torch=={version}", build
    build = gpu.torch_backend(target)
    served = max((candidate.torches for candidate in gpu.BUILDS if candidate.name == build), key=max, default=range(0))
    return f"torch<2.{served.stop}", "" if build == "cpu" else build


def _other(package: Json, what: str, cuda: str, files: Mapping[str, str]) -> Finding:
    name, version = str(package["name"]), str(package["version"])
    family = "jax" if name == "jax" else "tensorflow"
    declaration = _declared(
        files, ("jax", "jaxlib") if family == "jax" else ("tensorflow", "tensorflow-cpu", "tensorflow-gpu")
    )
    is_conda = declaration is not None and _is_conda(files, declaration[0])
    major = untrusted.whole_number(cuda.partition(".")[0]) or 12
    if package.get("cuda") and probe_verdict.too_new(str(package["cuda"]), cuda):
        new = _OLDER[family].get(major, family)
    elif family == "jax":
        new = f"jax[cuda{min(max(major, 12), 13)}]=={version}" if version else f"jax[cuda{min(max(major, 12), 13)}]"
    elif version.startswith("1."):
        new = f"tensorflow-gpu{_pin(declaration, version)}"
    else:
        new = (
            f"tensorflow-gpu{_pin(declaration, version)}"
            if is_conda
            else f"tensorflow[and-cuda]{_pin(declaration, version)}"
        )
    where = declaration[0] if declaration else "the environment"
    fix = f"write {new}" if declaration else f"pip install '{new}'"
    return Finding(where, what, fix)


def _pin(declaration: tuple[str, re.Match[str]] | None, version: str) -> str:
    """As the file pins it."""
    spec = (declaration[1]["spec"] or "").strip().rstrip(",") if declaration else ""
    return spec or (f"=={version}" if version else "")


def _or_driver(package: Json, cuda: str) -> str:
    """The other way out, where the package is newer than the driver."""
    built_for = str(package.get("cuda") or "")
    if not probe_verdict.too_new(built_for, cuda):
        return ""
    driver = DRIVERS.get(int(built_for.partition(".")[0]))
    return f"; or install driver {driver} or newer there" if driver else ""


def _unused(facts: Json, scripts: Mapping[str, str]) -> Iterator[Finding]:
    """The card was there, the packages are right, and the script did not use it."""
    hidden = script_source.hides_gpus(scripts)
    if hidden:
        yield Finding(hidden.where, "the script hides every GPU from itself", f"delete this line: {hidden.text}")
        return
    cpu = script_source.stays_on_cpu(scripts)
    if cpu:
        yield Finding(cpu.where, "the script selects the CPU here", f"write {cpu.new}")
        return
    names = [str(package["name"]) for package in _objects(facts.get("packages"))]
    model = script_source.unmoved_model(scripts) if not names or "torch" in names else None
    if model:
        what = "nothing in these sources seems to move the model to the GPU, and torch does not do so by itself"
        fix = f"write {model.new}" if model.new else 'move it: model = model.to("cuda")'
        yield Finding(model.where, what, f'{fix}, and each batch: batch = batch.to("cuda")')


def _declared(files: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, re.Match[str]] | None:
    """The line that requires one of these packages, and the part of it with name and version."""
    for name, number, line in _lines(files, _DECLARING):
        match = _LINE.match(line)
        if match and match["name"].lower().replace("_", "-") in names and not line.rstrip().endswith(":"):
            return f"{name}:{number}", match
    return None


def _is_conda(files: Mapping[str, str], where: str) -> bool:
    """Whether a line of a conda file is for conda and not for pip, which is indented further."""
    name, _, number = where.rpartition(":")
    if not name.endswith((".yml", ".yaml")):
        return False
    lines = files[name].splitlines()[: int(number)]
    depth = len(lines[-1]) - len(lines[-1].lstrip())
    pip = [len(line) - len(line.lstrip()) for line in lines if re.match(r"\s*-\s*pip\s*:\s*$", line)]
    return not pip or depth <= pip[-1]


def _lines(files: Mapping[str, str], endings: tuple[str, ...]) -> Iterator[tuple[str, int, str]]:
    for name, text in files.items():
        if name.endswith(endings):
            for number, line in enumerate(text.splitlines(), 1):
                if not line.lstrip().startswith("#"):
                    yield name, number, line


def _facts(check: Json | None) -> Json:
    facts = (check or {}).get("facts")
    return {**_WELL, **facts} if isinstance(facts, dict) and isinstance(facts.get("devices"), list) else {}


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


_WELL: Json = {
    "library": "",
    "refused": None,
    "visible": None,
    "nodes": [],
    "devices": [{}],
    "packages": [],
    "cuda": None,
    "program": "",
}
