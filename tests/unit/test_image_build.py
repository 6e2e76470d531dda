"""How far the building of an image is, from lines as builders print them."""

from __future__ import annotations

import pytest

from holdfast.runner.container import image_build


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Step 3/7 : RUN pip install six", ("3", "7", "RUN pip install six")),  # docker's old builder
        ("STEP 3/7: RUN pip install six", ("3", "7", "RUN pip install six")),  # podman
        ("[2/2] STEP 3/7: RUN make", ("3", "7", "RUN make")),  # podman, several stages
        ("#9 [3/7] RUN pip install six", ("3", "7", "RUN pip install six")),  # docker's new builder
        ("#12 [builder 3/7] RUN make", ("3", "7", "RUN make")),
        ("#12 [stage-1 10/12] COPY . /app", ("10", "12", "COPY . /app")),
        ("#9 CACHED", None),
        ("#1 [internal] load build definition from Dockerfile", None),
        ("Successfully built 1f2e3d", None),
        ("--> 1f2e3d4c", None),
        ("copied 3/7 files", None),
        ("", None),
    ],
)
def test_a_step_is_seen(line: str, step: tuple[str, str, str] | None) -> None:
    found = image_build._STEP.search(line)
    assert (found.groups() if found else None) == step
