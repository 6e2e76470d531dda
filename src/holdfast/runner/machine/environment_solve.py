"""Solves the lock of an environment on the target, where packages must be built for that."""

import os

from ..store import checkout, layout
from ..store.remove_tree import remove_tree
from . import pip_configuration
from .environment import BuildContainer, ask_builder, configuration, package_folders

MYPY = False
if MYPY:
    from collections.abc import Callable


def solve(
    home: "bytes",
    runner: "str",
    parameters: "dict[str, object]",
    log: "bytes",
    tell: "Callable[[dict[str, object]], None]",
) -> "dict[str, object]":
    """The builder's answer, from this machine or from a container of the image that ``parameters`` names."""
    request = dict(parameters["request"], verb="solve", log=os.fsdecode(log))  # type: ignore[call-overload]
    request["pip_configuration"] = configuration(request.get("pip_configuration"))
    request["cache"] = os.fsdecode(layout.packages(home))
    program = layout.builder_program(layout.runner(os.fsdecode(home), runner))
    folder = os.path.join(layout.cache(home), b"solve-%d" % os.getpid())
    image, tree = parameters.get("container"), parameters.get("tree")
    remove_tree(folder)
    try:
        if tree:  # the project's own packages, where its folder is on another machine
            checkout.checkout(layout.objects(home), str(tree), folder)
            request["project"] = os.fsdecode(folder)
        seen = [str(request.get("project") or ""), *package_folders(request["spec"])]
        seen += pip_configuration.folders(request["pip_configuration"])
        with BuildContainer(home, image if isinstance(image, dict) else None, seen, log) as container:
            request["inside"] = container.words
            return ask_builder(home, program, request, log, tell, lambda: False)
    finally:
        remove_tree(folder)
