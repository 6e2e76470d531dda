from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.amlconfig.types import ComputeTarget
from holdfast.engine.submit.container import refuse_newer_cuda
from holdfast.errors import NoGpuError
from holdfast.image_names import complaint, cuda_of, replaced
from holdfast.withdrawn import CUDA_IMAGE as CUDA
from holdfast.withdrawn import PLAIN_IMAGE as PLAIN

# The grammar that docker's own documentation gives.
PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
GRAMMAR = re.compile(rf"(?:{HOST}/)?{PART}(?:/{PART})*(?::{TAG})?(?:@[a-z0-9]+:[0-9a-f]{{32,}})?")
DIGEST = "sha256:" + "0123456789abcdef" * 4
PIECES = st.sampled_from([*"aB0:/@.-_", "__", "--", "[::1]", "a.b", ":5000/", "/b", ":1_x", f"@{DIGEST}", "@md5:12"])


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("microsoft/mmlspark", PLAIN, "Spark"),
        ("microsoft/mmlspark:0.7", PLAIN, "Java 8"),
        ("microsoft/mmlspark:0.9.9", PLAIN, "MMLSpark"),
        ("microsoft/mmlspark:plus-0.7.91", PLAIN, "CNTK"),
        ("microsoft/mmlspark:plus-0.7.dev7_2.gcfbc920", PLAIN, "Spark"),
        ("microsoft/mmlspark:plus-0.10.9", PLAIN, "Spark"),
        ("docker.io/microsoft/mmlspark:plus-0.9.9", PLAIN, "Spark"),
        ("microsoft/mmlspark:plus-gpu-0.7.9", CUDA, "no Python"),
        ("microsoft/mmlspark:plus-gpu-0.7.91", CUDA, "Spark"),
        ("index.docker.io/microsoft/mmlspark:gpu-0.9.9", CUDA, "CUDA 8"),
        ("microsoft/cntk:2.2-gpu-python3.5-cuda8.0-cudnn6.0", CUDA, "CNTK"),
        ("microsoft/cntk:2.2-cpu-python3.5", PLAIN, "CNTK"),
    ],
)
def test_withdrawn_images_have_a_stand_in_and_words(old: str, new: str, gone: str) -> None:
    image, words = replaced(old)
    assert image == new
    assert words.startswith(f"{old} was withdrawn; {new} is used")
    assert gone in words
    assert replaced(image) == (image, "")


@pytest.mark.parametrize(
    "image", ["ubuntu:22.04", "ada/mmlspark:plus-gpu-0.7.9", "quay.io/microsoft/mmlspark:0.7", "rootfs:/", ""]
)
def test_other_images_stay(image: str) -> None:
    assert replaced(image) == (image, "")


@pytest.mark.parametrize(
    "image",
    [
        "debian",
        "python:3.11-bookworm",
        "team/train__gpu.x-y:V1_2",
        "localhost/train",
        "registry.example.org:5000/a/b/c:1",
        "[::1]:5000/a",
        f"debian@{DIGEST}",
        f"debian:12@{DIGEST}",
        DIGEST,
        "rootfs:/",
        "rootfs:/srv/my image",
    ],
)
def test_names_that_engines_read(image: str) -> None:
    assert complaint(image) == ("", "")


@pytest.mark.parametrize(
    ("image", "hint"),
    [
        ("Debian:12", "write debian:12"),
        ("docker://debian:12", "write debian:12"),
        ("https://Registry.example.org/A:1", "write registry.example.org/a:1"),
        ("-v/:/host", "write name:tag"),
        ("--privileged", "write name:tag"),
        ("a b", "write name:tag"),
        ("a:", "write name:tag"),
        ("a\n", "write name:tag"),
        ("a@sha256:12", "write name:tag"),
        ("a" * 256, "write name:tag"),
        ("", "write name:tag"),
        ("rootfs:srv", "write rootfs:/"),
        ("rootfs:", "write rootfs:/"),
        ("rootfs:/a:O,upperdir=/etc", "without ':'"),
        ("rootfs:/a\n", "without ':'"),
    ],
)
def test_names_that_they_do_not(image: str, hint: str) -> None:
    message, advice = complaint(image)
    assert message
    assert hint in advice


@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=9).map("".join))
@example("/a")
@example("a//b")
@example("A:1/b")
@example("[]/b")
def test_names_follow_the_grammar(image: str) -> None:
    follows = len(image) <= 255 and GRAMMAR.fullmatch(image) is not None
    assert (complaint(image) == ("", "")) == follows


@settings(deadline=None)
@given(st.text(max_size=300) | st.text("aA0:/@.-_ ", max_size=300))
def test_no_accepted_name_reads_as_an_option(image: str) -> None:
    message, hint = complaint(image)
    assert bool(message) == bool(hint)
    if not message:
        assert image.isprintable()
        assert not image.startswith("-")


@pytest.mark.parametrize(
    ("image", "is_valid"),
    [
        (f"a:{'t' * 128}", True),
        (f"a:{'t' * 129}", False),
        ("a:", False),
        ("a:.x", False),
        ("a:-x", False),
        ("a:_x", True),
        (f"a@sha256:{'0' * 32}", True),
        (f"a@sha256:{'0' * 31}", False),
        (f"a@SHA256:{'0' * 32}", False),
        (f"a@sha256:{'g' * 32}", False),
        (f"a@:{'0' * 32}", False),
        ("host:5000/a", True),
        ("host:x/a", False),
        ("[::1]:5000/a", True),
        ("[]:5000/a", False),
        ("[1]/a", True),
        ("[xyz]/a", False),
        ("Host.example/a", True),
        ("Host", False),
        ("-host/a", False),
        ("host-/a", False),
        ("a/b/c", True),
        ("/a", False),
        ("a//b", False),
        ("a--b", True),
        ("a__b", True),
        ("a..b", False),
        ("a.", False),
        ("é", False),
    ],
)
def test_image_names_at_the_edges_of_the_grammar(image: str, is_valid: bool) -> None:
    assert (complaint(image) == ("", "")) == is_valid


def test_image_name_has_at_most_255_characters() -> None:
    assert complaint("a" * 255) == ("", "")
    assert complaint("a" * 256)[0]


def test_rootfs_is_a_full_path_without_options() -> None:
    assert complaint("rootfs:/srv/root") == ("", "")
    assert "needs the full path" in complaint("rootfs:srv")[0]
    for path in ("/a:b", "/a,b", "/a\nb"):
        assert "podman cannot take" in complaint(f"rootfs:{path}")[0]


def test_replacement_has_the_cuda_of_the_framework() -> None:
    image, words = replaced("microsoft/mmlspark:plus-gpu-0.9.9", (10, 0))
    assert image == "docker.io/tensorflow/tensorflow:1.15.5-gpu"
    assert "was withdrawn" in words
    assert cuda_of(image) == (10, 0)
    assert replaced(image, (10, 0)) == (image, "")


def test_nvidia_images_that_were_removed_are_replaced() -> None:
    image, words = replaced("nvidia/cuda:9.0-cudnn7-runtime-ubuntu16.04", (11, 2))
    assert cuda_of(image) == (11, 2)
    assert "NVIDIA keeps no images with CUDA 9.0" in words
    assert replaced("nvidia/cuda:11.8.0-runtime-ubuntu22.04") == ("nvidia/cuda:11.8.0-runtime-ubuntu22.04", "")
    assert cuda_of("nvidia/cuda:latest") is None


BOX = ComputeTarget(name="box", type="docker")
CUDA_12_6 = "nvidia/cuda:12.6.3-cudnn-runtime-ubuntu22.04"


@pytest.mark.parametrize("driver", ["12.2", "13.0", ""])
def test_image_of_the_drivers_cuda_is_accepted(driver: str) -> None:
    """A driver runs later minor versions of its CUDA; an unknown driver is left to the run."""
    refuse_newer_cuda(BOX, CUDA_12_6, driver)


def test_image_with_a_newer_cuda_than_the_driver_is_refused() -> None:
    with pytest.raises(NoGpuError, match=r"has CUDA 12\.6, and the driver of this target serves CUDA 11\.8") as refused:
        refuse_newer_cuda(BOX, CUDA_12_6, "11.8")
    assert (refused.value.exit_code, refused.value.where) == (81, "box.compute")
