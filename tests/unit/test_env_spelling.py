"""Requirements, match specs, versions and wheel names: one spelling each, and nothing that is not data."""

from __future__ import annotations

import pytest

from holdfast.environments import matchspec, requirement, versions
from holdfast.environments.spec import Facts
from holdfast.environments.wheels import misfit, parse_wheel, right_tag

LINUX = Facts("linux-64", {"__glibc": "2.28"})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("NumPy", "numpy"),
        ("Scikit_Learn ( >=0.19, <1 )", "scikit-learn<1,>=0.19"),
        ("a.b[Z, y]==1.0", "a-b[y,z]==1.0"),
        ("x==1.0+CPU", "x==1.0+cpu"),
        (
            "x; python_version<'3.8' and sys_platform == \"win32\"",
            'x ; python_version < "3.8" and sys_platform == "win32"',
        ),
        ("x==1 --hash=sha256:BB --hash=sha256:aa", "x==1 --hash=sha256:aa --hash=sha256:bb"),
        ("https://h/x-1.whl", "https://h/x-1.whl"),
        ("x===2019.1", "x===2019.1"),
        # What pip once accepted and PEP 440 does not allow; the solver judges it.
        ("numpy>=1.11.*", "numpy>=1.11.*"),
        ("x[a] (<2.*, >=1.0.dev-abc) ; python_version<'3'", 'x[a]<2.*,>=1.0.dev-abc ; python_version < "3"'),
        ("cntk==2.0.beta15.0", "cntk==2.0.beta15.0"),
        # Parentheses stay as written: keys of environments depend on the spelling.
        ("x; (python_version>='3.6')", 'x ; ( python_version >= "3.6" )'),
        ("x; 'a\"b' in platform_version", "x ; 'a\"b' in platform_version"),
    ],
)
def test_requirements(text: str, canonical: str) -> None:
    assert requirement.parse(text).text == canonical
    assert requirement.parse(canonical).text == canonical


@pytest.mark.parametrize(
    "text",
    [
        "$(touch x)",
        "numpy; rm -rf /",
        "numpy ;",
        "a b",
        "x==",
        "x=1.2",
        "`id`",
        "x @ not a url",
        "-x",
        "é",
        "a|b",
        "x>1;y",
        "x>1 <2",
        "x>=1.*; y",
        "x>=1.* @ https://h/x.whl",
    ],
)
def test_no_requirements(text: str) -> None:
    with pytest.raises(requirement.NotARequirementError):
        requirement.parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("NumPy", "numpy"),
        ("numpy=1.13", "numpy=1.13"),
        ("numpy==1.13", "numpy=1.13"),
        ("numpy >= 1.13, < 2", "numpy<2,>=1.13"),
        ("numpy 1.13.*", "numpy 1.13.*"),
        ("numpy 1.13.1 py36_0", "numpy 1.13.1 py36_0"),
        ("numpy=1.13=py36_0", "numpy=1.13=py36_0"),
        ("conda-forge::numpy=1.16.*", "conda-forge::numpy=1.16.*"),
        ("pytorch[build=*cuda*]", "pytorch[build=*cuda*]"),
        ("ruamel_yaml", "ruamel_yaml"),
    ],
)
def test_matchspecs(text: str, canonical: str) -> None:
    assert matchspec.parse(text).text == canonical
    assert matchspec.parse(canonical).text == canonical


@pytest.mark.parametrize("text", ["$(touch x)", "numpy; rm", "`id`", "--index-url x", "a=", "a & b", "a`b`"])
def test_no_matchspecs(text: str) -> None:
    with pytest.raises(matchspec.NotAMatchSpecError):
        matchspec.parse(text)


@pytest.mark.parametrize(
    ("constraint", "version", "is_allowed"),
    [
        (None, "3.11.7", True),
        ("==3.5.2.*", "3.5.2", True),
        ("==3.5.*", "3.6.1", False),
        ("==3.11", "3.11.0", True),
        ("==3.11", "3.11.7", False),
        ("<3.12,>=3.9", "3.11.7", True),
        ("<3.12,>=3.9", "3.12.0", False),
        ("~=3.10", "3.13.0", True),
        ("~=3.10.1", "3.11.0", False),
        ("!=3.9.*", "3.9.1", False),
        ("==3.6.*|==3.8.*", "3.8.2", True),
        (">3.10", "3.10", False),
        (">=3.6.*", "3.5.2", False),
        (">=3.6.*", "3.6.0", True),
        ("=3.5", "3.5.9", True),
        (">=3.13", "3.13.0rc1", True),
        ("<3.13", "3.13.0rc1", False),
        ("whatever", "3.10", True),
    ],
)
def test_versions(constraint: str | None, version: str, is_allowed: bool) -> None:
    assert versions.allows(constraint, version) is is_allowed


@pytest.mark.parametrize(
    ("constraint", "minor"),
    [("==3.5.2.*", (3, 5)), ("~=3.5.1", (3, 5)), ("~=3.5", None), (">=3.5", None), (None, None), ("==3", None)],
)
def test_the_minor_version_where_it_is_certain(constraint: str | None, minor: tuple[int, int] | None) -> None:
    assert versions.minor(constraint) == minor


def test_conda_versions_as_pip_writes_them() -> None:
    assert versions.from_conda("=3.5.2") == "==3.5.2.*"
    assert versions.from_conda("3.6.*") == "==3.6.*"
    assert versions.from_conda("<3.9,>=3.6") == "<3.9,>=3.6"


@pytest.mark.parametrize(
    ("wheel", "python", "reason"),
    [
        ("cntk-2.1-cp35-cp35m-linux_x86_64.whl", (3, 5), ""),
        ("cntk-2.1-cp35-cp35m-win_amd64.whl", (3, 5), "is for Windows (win_amd64); the target is linux-64"),
        ("a-1-cp35-cp35m-linux_x86_64.whl", (3, 11), "is for Python cp35; the environment has Python 3.11"),
        ("a-1-py2.py3-none-any.whl", (3, 11), ""),
        ("a-1-py2-none-any.whl", (3, 11), "is for Python py2; the environment has Python 3.11"),
        ("a-1-cp37-abi3-manylinux2014_x86_64.whl", (3, 11), ""),
        ("a-1-cp312-abi3-manylinux2014_x86_64.whl", (3, 11), "is for Python cp312; the environment has Python 3.11"),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", (3, 11), ""),
        (
            "a-1-cp311-cp311-manylinux_2_34_x86_64.whl",
            (3, 11),
            "is for Linux (manylinux_2_34_x86_64); the target is linux-64 with glibc 2.28",
        ),
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", (3, 11), ""),
        (
            "a-1-cp311-cp311-musllinux_1_1_x86_64.whl",
            (3, 11),
            "is for Linux with musl (musllinux_1_1_x86_64); the target is linux-64",
        ),
        ("a-1-cp311-cp311-linux_aarch64.whl", (3, 11), "is for Linux (linux_aarch64); the target is linux-64"),
        ("a-1-cp311-cp311-macosx_11_0_arm64.whl", None, "is for macOS (macosx_11_0_arm64); the target is linux-64"),
        ("a-1-cp35-cp35m-linux_x86_64.whl", None, ""),
        ("a-1-2build-cp35-cp35m-linux_x86_64.whl", (3, 5), ""),
        ("cntk-2.0.beta15.0-cp35-cp35m-linux_x86_64.whl", (3, 5), ""),
        ("a-1-cp27-cp27mu-manylinux1_x86_64.whl", (2, 7), ""),
        ("a-1-cp313-cp313t-linux_x86_64.whl", (3, 13), ""),
        ("a-1-py310-none-any.whl", (3, 9), "is for Python py310; the environment has Python 3.9"),
        ("a-1-py38.py39-none-any.whl", (3, 13), ""),
    ],
)
def test_wheels_that_fit_and_do_not(wheel: str, python: tuple[int, int] | None, reason: str) -> None:
    parsed = parse_wheel(f"https://host/some/{wheel}?sig=1")
    assert parsed is not None
    assert misfit(parsed, LINUX, python) == reason


def test_wheels_on_other_platforms() -> None:
    mac = parse_wheel("a-1-cp311-cp311-macosx_11_0_universal2.whl")
    windows = parse_wheel(r"wheels\a-1-cp311-cp311-win_amd64.whl")
    assert mac is not None
    assert windows is not None
    assert misfit(mac, Facts("osx-64"), (3, 11)) == misfit(mac, Facts("osx-arm64"), (3, 11)) == ""
    assert misfit(windows, Facts("win-64"), (3, 11)) == ""
    assert misfit(mac, Facts("win-64"), (3, 11)) != ""


@pytest.mark.parametrize("name", ["a.whl", "a-1.tar.gz", "", "https://host/a-1-cp35", "$(x)-1-a-b-c.whl"])
def test_no_wheels(name: str) -> None:
    assert parse_wheel(name) is None


def test_right_tags() -> None:
    assert right_tag(LINUX, (3, 5)) == "cp35-cp35m-linux_x86_64"
    assert right_tag(LINUX, (3, 11)) == "cp311-cp311-linux_x86_64"
    assert right_tag(Facts("win-64"), None) == "win_amd64"
