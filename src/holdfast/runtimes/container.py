"""A script in a container: its command line inside the container.

The engine is found on the target, where the run's folders and the caller's ids are known too, so the engine's own words
are put together there, by a function as pure as this one (``runner/container/argv.py``).
"""

from __future__ import annotations

from holdfast.runtimes.python import PythonRuntime


class ContainerRuntime(PythonRuntime):
    """The same words; ``interpreter`` is the image's, or that of an environment that was built in it."""
