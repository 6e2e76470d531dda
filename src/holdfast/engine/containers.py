"""The container that a run will be in: its engine and image, found or fetched on the target."""

from __future__ import annotations

from holdfast import images, targets
from holdfast.errors import ConfigError, InternalError
from holdfast.model import Json
from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.amlconfig.types import ComputeTarget
    from holdfast.ports import Channel


class Container(Record):
    """``facts`` are those of the machine as a program in the image finds it; ``build`` is for who builds in it."""

    image: str
    engine: Json
    found: Json
    facts: Json

    @property
    def python(self) -> str | None:
        path = self.found.get("python")
        return str(path) if path else None

    @property
    def build(self) -> Json:
        return {"program": self.engine["program"], "image_id": self.found["id"]}


def is_contained(compute: ComputeTarget) -> bool:
    return compute.type in targets.CONTAINED


def settle(compute: ComputeTarget, channel: Channel, tell: Callable[[Json], None]) -> Container:
    """Ask the target; it fetches the image where it has none, and tells how far it is."""
    name = images.replaced(compute.base_docker_image or "")[0]
    asked = {"engine": compute.engine, "image": name, "python": compute.python_location or "python"}
    for header, _ in channel.stream("image", **asked):
        said = header.get("progress")
        if isinstance(said, dict):
            tell(said)
        failed = header.get("failed")
        if isinstance(failed, dict):
            where = f"{compute.name}.compute"
            raise ConfigError(str(failed["what"]), where=where, answer=str(failed["answer"]), hint=str(failed["hint"]))
        if header.get("end"):
            return _understood(name, header)
    raise InternalError("the runner said nothing of the image", where=name)


def _understood(name: str, header: Json) -> Container:
    engine, found, facts = header.get("engine"), header.get("image"), header.get("facts")
    if not (isinstance(engine, dict) and isinstance(found, dict) and isinstance(facts, dict)):
        raise InternalError("the runner's answer about an image cannot be read", answer=repr(header)[:200])
    return Container(name, engine, found, facts)
