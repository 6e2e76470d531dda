"""Builds an image from a Dockerfile of the project; its tag is the hash of its content."""

import os
import re
import subprocess

from ..decoding import readable
from ..store import checkout, layout, objects
from ..store.remove_tree import remove_tree
from . import engines

MYPY = False
if MYPY:
    from collections.abc import Callable

# "Step 3/7 : RUN ..." of the old builder, "[2/2] STEP 3/7: RUN ..." of podman, "#9 [3/7] RUN ..." of the new one.
_STEP = re.compile(r"(?:(?:\[\S+\] )?step |\[(?:\S+ )?)(\d+)/(\d+)[\]: ]+(.*)", re.IGNORECASE)


def build(
    home: "bytes",
    engine: "dict[str, object]",
    name: "str",
    options: "dict[str, object]",
    tell: "Callable[[dict[str, object]], None]",
) -> "None":
    """Nothing is done where that content was built before. An image is named when it is whole."""
    program = str(engine["program"])
    if engines.inspect(program, name) is not None:
        return
    folder = os.path.join(layout.cache(home), b"build-%d" % os.getpid())
    remove_tree(folder)
    try:
        checkout.checkout(layout.objects(home), str(options["tree"]), folder)
        _run(program, name, os.fsdecode(folder), options, tell)
        made = engines.inspect(program, name)
        if made is not None:
            engines.remember(home, engine, str(made["id"]), "built")
    except objects.Damaged as error:
        raise engines.EngineTrouble("the files of the image arrived incomplete", str(error), "try again") from error
    finally:
        remove_tree(folder)


def _run(
    program: "str",
    name: "str",
    folder: "str",
    options: "dict[str, object]",
    tell: "Callable[[dict[str, object]], None]",
    plain: "bool" = False,
) -> "None":
    argv = [program, "build", "--tag", name, "--file", os.path.join(folder, str(options["file"]))]
    argv += ["--force-rm"]  # also of what failed
    argv += ["--network", str(options["network"])] if options.get("network") else []
    env = dict(os.environ, DOCKER_BUILDKIT="0") if plain else None
    builder = subprocess.Popen(
        [*argv, folder], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
    )
    last = []  # type: list[str]
    for raw in builder.stdout:  # type: ignore[union-attr]
        line = readable(raw).rstrip()
        last = [*last[-30:], line] if line else last
        step = _STEP.search(line)
        if step:
            tell({"phase": "image", "name": step.group(3), "done": int(step.group(1)), "total": int(step.group(2))})
    if builder.wait():
        output = "\n".join(last)
        if "buildx component is missing" in output and not plain:
            _run(program, name, folder, options, tell, plain=True)
            return
        hint = engines.meaning(program, output).hint
        raise engines.EngineTrouble(
            "the image could not be built from %s" % options["file"], "\n".join(last[-12:]), hint
        )
