"""Ignore rules: git's own answers, line by line, and the few rules that are ours."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.snapshot.ignore import Rule, Rules, explain

CORPUS_SEEDS = range(1, 13)
NAMES = [b"a", b"b", b"foo", b"bar", b"foo.txt", b"a.b", b"x[1]", b"sp ace", b"trail ", b"#h", b"!bang", b"z-9", b"A1"]
NAMES += [b"_", b"-", b"]", b"tab\t", b"v\x0b", b"nl\nx", b"*", b"q?", b"a\\b", b"\xff", "é".encode()]
ATOMS = ["a", "b", "foo", "bar", ".txt", "*", "?", "**", "/", "/", "[ab]", "[!a]", "[^b]", "[a-z]", "[[:alpha:]]", "x"]
ATOMS += ["[[:space:]]", "[[:punct:]]", "[[:digit:]x]", "[[:cntrl:]]", "[]a]", "[a-", "[\\]]", "\\", "\\a", "\\ ", " "]
ATOMS += ["é", "[z-a]", "[--9]", "[[:bad:]]", "[[:a]", "[[:]", "**/", "/**", "***", "#", "!", "-", "]", "A", "1", "."]
ATOMS += ["[a/b]", "[a-c-e]", "[[:upper:][:xdigit:]]", "[!-]", "[a\\-z]"]


def git(root: Path, *words: str, stdin: bytes = b"") -> bytes:
    env = {"PATH": os.environ["PATH"], "HOME": str(root / ".git"), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", "-C", root, *words], input=stdin, env=env, capture_output=True, check=False).stdout


def walk(root: Path) -> dict[bytes, Rule | None]:
    """Our verdict on every path of a project, the way a snapshot asks; below an ignored folder its rule holds."""
    verdicts: dict[bytes, Rule | None] = {}

    def visit(folder: bytes, path: bytes, rules: Rules, inherited: Rule | None) -> None:
        for name in os.listdir(folder):
            if name == b".git":
                continue
            where, below = os.path.join(folder, name), os.path.join(path, name)
            is_folder = os.path.isdir(where) and not os.path.islink(where)
            verdicts[below] = verdict = inherited or rules.leaves_out(name, below, is_folder)
            if is_folder:
                inner = rules if verdict else rules.inside(where, below, os.listdir(where))
                visit(where, below, inner, verdict)

    top = os.fsencode(root)
    visit(top, b"", Rules.of_project(top, os.listdir(top)), None)
    return verdicts


def answers_of_git(root: Path, paths: list[bytes]) -> dict[bytes, Rule | None]:
    told = git(root, "check-ignore", "-z", "-v", "-n", "--no-index", "--stdin", stdin=b"\0".join(paths) + b"\0")
    fields = told.split(b"\0")[:-1]
    answers: dict[bytes, Rule | None] = {}
    for file, line, pattern, path in zip(*[iter(fields)] * 4, strict=True):
        ignored = pattern and not pattern.startswith(b"!")
        answers[path] = Rule(os.fsdecode(file), int(line), pattern.decode()) if ignored else None
    return answers


def random_pattern(rng: random.Random) -> str:
    pattern = "".join(rng.choice(ATOMS) for _ in range(rng.choice((1, 1, 2, 2, 3, 4, 5))))
    pattern = ("!" if rng.random() < 0.25 else "") + ("/" if rng.random() < 0.1 else "") + pattern
    return pattern + ("/" if rng.random() < 0.2 else "") + rng.choice(("", "", "", "", " ", "  ", "\\ ", "\t"))


def random_project(folder: Path, rng: random.Random, depth: int = 0) -> int:
    """Files, folders and nested ignore files; returns the number of patterns."""
    patterns = 0
    for name in rng.sample(NAMES, rng.randint(5, 8)):
        place = os.path.join(os.fsencode(folder), name)
        if depth < 3 and rng.random() < 0.4:
            os.mkdir(place)
            patterns += random_project(Path(os.fsdecode(place)), rng, depth + 1)
        else:
            Path(os.fsdecode(place)).touch()
    if depth == 0 or rng.random() < 0.4:
        lines = [random_pattern(rng) for _ in range(rng.randint(2, 9))]
        end = rng.choice(("\n", "\n", "\r\n"))
        text = rng.choice(("", "", "\ufeff")) + end.join(lines) + rng.choice(("", end))
        (folder / ".gitignore").write_bytes(text.encode())
        patterns += len(lines)
    return patterns


def test_git_agrees_on_a_generated_corpus(tmp_path: Path) -> None:
    patterns = paths = ignored = 0
    for seed in CORPUS_SEEDS:
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        root.mkdir()
        git(root, "init", "-q")
        patterns += random_project(root, rng)
        (root / ".git/info/exclude").write_text("\n".join(random_pattern(rng) for _ in range(3)))
        ours = walk(root)
        theirs = answers_of_git(root, list(ours))
        different = {path: (ours[path], theirs[path]) for path in ours if ours[path] != theirs[path]}
        assert different == {}, f"seed {seed}"
        paths += len(ours)
        ignored += sum(rule is not None for rule in ours.values())
    print(f"seeds {CORPUS_SEEDS}: {patterns} patterns, {paths} paths, {ignored} of them ignored")
    assert patterns >= 500
    assert 0.1 < ignored / paths < 0.9


STARS = ["*", "*", "*", "**", "**/", "/**/", "/", "?", "a", "b", "ab", "[ab]", "[!a]", "[[:alpha:]]", "\\a", "\\/"]


@pytest.mark.parametrize("seed", range(6))
def test_git_agrees_on_patterns_with_many_stars(tmp_path: Path, seed: int) -> None:
    """Names of two letters and patterns that are mostly stars: here a matcher that gives up too early would differ."""
    rng = random.Random(seed)
    git(tmp_path, "init", "-q")
    patterns = ["".join(rng.choice(STARS) for _ in range(rng.randint(2, 9))) for _ in range(40)]
    (tmp_path / ".gitignore").write_text("\n".join(patterns))
    paths = {b"/".join(_letters(rng) for _ in range(rng.randint(1, 5))) for _ in range(300)}
    theirs = answers_of_git(tmp_path, sorted(paths))
    rules = Rules.of_project(os.fsencode(tmp_path), os.listdir(os.fsencode(tmp_path)))
    different = {path: (_verdict(rules, path), theirs[path]) for path in paths if _verdict(rules, path) != theirs[path]}
    assert different == {}


@pytest.mark.parametrize("seed", range(40))
def test_git_agrees_on_one_pattern_with_many_stars(tmp_path: Path, seed: int) -> None:
    """Alone, so that no later pattern hides what it says."""
    rng = random.Random(1000 + seed)
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("".join(rng.choice(STARS) for _ in range(rng.randint(3, 7))))
    paths = {b"/".join(_letters(rng) for _ in range(rng.randint(1, 5))) for _ in range(300)}
    theirs = answers_of_git(tmp_path, sorted(paths))
    rules = Rules.of_project(os.fsencode(tmp_path), os.listdir(os.fsencode(tmp_path)))
    assert {path: _verdict(rules, path) for path in paths} == theirs


def _letters(rng: random.Random) -> bytes:
    return bytes(rng.choice(b"aab") for _ in range(rng.randint(1, 6)))


def _verdict(rules: Rules, path: bytes) -> Rule | None:
    """As for a path that is there: the folders above it are asked first."""
    words = path.split(b"/")
    for end in range(1, len(words) + 1):
        if rule := rules.leaves_out(words[end - 1], b"/".join(words[:end]), end < len(words)):
            return rule
    return None


SLOW = ["*a*a*a*a*a*ab", "*a" * 60 + "b", "*[a-z]" * 60 + "0", "*?" * 60 + "0", "**/*a*a*a*a*a*ab", "a*" * 100 + "0"]
SLOW += ["**/a/" * 50 + "0", "/**/**/*/" * 30 + "**/0", "*[[:alpha:]]*[!b]" * 30 + "0", "/*a*a*a*a*a*a/**/a*a*a*a*ab"]
SLOW += ["!" + "*a" * 60 + "b", "*a*a*a*a*a*ab/", "[" * 200, "[[:" * 200, "\\" * 199, "*" * 4000 + "0"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("file", [".gitignore", ".amlignore"])
@pytest.mark.parametrize("pattern", SLOW, ids=lambda pattern: pattern[:16])
def test_no_pattern_takes_more_than_a_moment(tmp_path: Path, pattern: str, file: str) -> None:
    """With backtracking the first of these takes hours for one name of 200 letters; git takes 3 ms."""
    (tmp_path / file).write_text(pattern + "\n")
    rules = Rules.of_project(os.fsencode(tmp_path), [file.encode()])
    long, deep = b"a" * 250, b"/".join([b"a" * 20] * 190)
    for _ in range(20):
        rules.leaves_out(long, long, is_folder=False)
        rules.leaves_out(long, b"a/" * 100 + long, is_folder=True)
        rules.leaves_out(b"a" * 20, deep, is_folder=False)


REAL = ["# of a common template", "__pycache__/", "*.py[cod]", "*$py.class", ".Python", "build/", "/dist", "lib/"]
REAL += ["!src/lib/", "*.egg-info/", ".coverage.*", "docs/_build/", "**/logs", "data/**/raw/*.csv"]
REAL += ["!data/keep/raw/*.csv", "foo**/bar", "\\#literal", "\\!literal", "with\\ space\\ ", "trailing   "]
REAL += ["*.log", "!important.log"]
REAL_PATHS = ["a.pyc", "src/b.pyo", "x.py", "build/x", "src/build/y", "dist/z", "src/dist/z", "lib/m", "src/lib/n"]
REAL_PATHS += ["pkg.egg-info/PKG", ".coverage.1", ".coverage", "sub/docs/_build/i", "logs/l", "a/b/logs", "Dist/q"]
REAL_PATHS += ["data/raw/a.csv", "data/x/y/raw/b.csv", "data/keep/raw/c.csv", "foobar", "fooz/q/bar", "foo/bar"]
REAL_PATHS += ["#literal", "!literal", "with space ", "trailing", "x.log", "important.log", "deep/er/important.log"]


def test_git_agrees_on_a_real_one(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("\n".join(REAL))
    project(tmp_path, dict.fromkeys(REAL_PATHS, ""))
    ours = walk(tmp_path)
    assert ours == answers_of_git(tmp_path, list(ours))
    assert ours[b"with space "] == Rule(".gitignore", 19, "with\\ space\\ ")


def test_git_agrees_that_ignore_files_must_be_regular(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "rules").write_text("*.log\n")
    (tmp_path / "d").mkdir()
    (tmp_path / ".gitignore").symlink_to("rules")
    (tmp_path / "d/.gitignore").mkdir()
    for name in ("x.log", "d/x.log"):
        (tmp_path / name).touch()
    ours = walk(tmp_path)
    assert ours == answers_of_git(tmp_path, list(ours))
    assert not any(ours.values())


def test_git_agrees_in_a_second_work_tree(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    git(first, "init", "-q")
    git(first, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "--allow-empty", "-m", "m")
    git(first, "worktree", "add", "-q", str(second))
    (first / ".git/info/exclude").write_text("*.log\n")
    (second / "x.log").touch()
    assert (second / ".git").is_file()
    assert [bool(rule) for rule in answers_of_git(second, [b"x.log"]).values()] == [True]
    assert walk(second)[b"x.log"] == Rule(".git/info/exclude", 1, "*.log")


def project(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_amlignore_has_the_last_word(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            ".gitignore": "data/\n*.pt\n",
            ".amlignore": "!data/\n*.csv\n",
            "sub/.amlignore": "!keep.csv\n",
            "sub/.gitignore": "keep.csv\n",
            **dict.fromkeys(("data/x.txt", "data/y.csv", "m.pt", "sub/keep.csv", "sub/other.csv"), ""),
        },
    )
    assert explain(root, "data/x.txt") is None
    assert explain(root, "data/y.csv") == Rule(".amlignore", 2, "*.csv")
    assert explain(root, "m.pt") == Rule(".gitignore", 2, "*.pt")
    assert explain(root, "sub/keep.csv") is None
    assert explain(root, "sub/other.csv") == Rule(".amlignore", 2, "*.csv")


def test_a_rule_reads_as_a_place_to_go(tmp_path: Path) -> None:
    root = project(tmp_path, {".gitignore": "# big\n\ndata/\n", "data/x.csv": ""})
    assert str(explain(root, "data/x.csv")) == ".gitignore:3 `data/`"
    assert explain(root, "./data") == Rule(".gitignore", 3, "data/")
    assert explain(root, "not/there") is None


@pytest.mark.parametrize(
    ("path", "left_out"),
    [
        (".git/config", True),
        ("sub/.git/config", True),
        ("outputs/model.pkl", True),
        ("docs/guide.md", True),
        ("sub/outputs/x", False),
        ("sub/docs/x", False),
        ("Outputs/x", False),
        ("DOCS/x", False),
        ("a/__pycache__/m.pyc", True),
        (".ipynb_checkpoints/n.ipynb", True),
        ("azureml-logs/x", True),
        (".azuremlhistory_git/x", True),
        (".holdfast-project", False),
        (".env.d/readme", False),
    ],
)
def test_some_names_never_travel(tmp_path: Path, path: str, left_out: bool) -> None:
    root = project(tmp_path, {path: "", ".amlignore": f"!{path}\n!{path.split('/', maxsplit=1)[0]}/\n"})
    assert (explain(root, path) is not None) == left_out


def test_environments_and_stores_are_known_by_what_they_hold(tmp_path: Path) -> None:
    files = ("venv/pyvenv.cfg", "venv/lib/x.py", "ai/pyvenv.cfg", ".holdfast/store.json", ".holdfast/objects/ab/c")
    root = project(tmp_path, dict.fromkeys((*files, "venv2/x.py", "objects/x"), ""))
    assert "pyvenv.cfg" in str(explain(root, "venv/lib/x.py"))
    assert explain(root, "ai/pyvenv.cfg") is not None
    assert "store" in str(explain(root, ".holdfast/objects/ab/c"))
    assert explain(root, "venv2/x.py") is None
    assert explain(root, "objects/x") is None


KEY = "-----BEGIN RSA PRIVATE KEY-----\nMII"
SECRETS = {
    ".env": "A=1",
    "sub/.env.local": "A=1",
    "id_rsa": "",
    "keys/id_ed25519": "",
    "server.pem": KEY,
    "tls.key": "Bag Attributes\n" + KEY,
    ".netrc": "",
    ".aws/credentials": "",
    "sub/.kube/config": "",
    "kubeconfig": "",
    ".pypirc": "",
    ".npmrc": "//registry.example/:_authToken=abc\n",
    "gcp.json": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}',
    "adc.json": '{"client_secret": "x", "refresh_token": "y"}',
    "azureauth.json": '{"clientId": "x", "clientSecret": "y"}',
    "kaggle.json": "{}",
    ".git-credentials": "",
    ".pgpass": "",
    "sub/.docker/config.json": "{}",
    ".cache/huggingface/token": "hf_x",
    "putty.ppk": "",
}
SECRET_FOLDERS = [".ssh", "backup/.ssh", ".gnupg", ".azure", ".config/gcloud", ".password-store"]
HARMLESS = {
    ".env.example": "A=",
    ".env.sample": "A=",
    ".env.template": "A=",
    ".envrc": "",
    "environment.yml": "",
    "id_rsa.pub": "",
    "ca.pem": "-----BEGIN CERTIFICATE-----",
    "translations.key": "hello",
    "credentials": "",
    "config": "",
    "config.json": "{}",
    "gcloud/main.py": "",
    "token": "",
    ".npmrc": "save-exact=true\n//registry.example/:_authToken=${NPM_TOKEN}\n",
    "labels.json": '{"private_key": "a column name"}',
}


@pytest.mark.parametrize("name", SECRETS)
def test_likely_secrets_stay_at_home_unless_asked_for(tmp_path: Path, name: str) -> None:
    root = project(tmp_path, {name: SECRETS[name]})
    assert "looks like" in str(explain(root, name))
    project(tmp_path, {".gitignore": f"!{os.path.basename(name)}\n"})
    assert explain(root, name) is not None, "only .amlignore speaks about what is sent"
    project(tmp_path, {".amlignore": f"!{os.path.basename(name)}\n"})
    assert explain(root, name) is None


@pytest.mark.parametrize("name", SECRET_FOLDERS)
def test_folders_of_secrets_stay_at_home_whatever_their_files_are_called(tmp_path: Path, name: str) -> None:
    file = f"{name}/work"
    root = project(tmp_path, {file: ""})
    assert "looks like" in str(explain(root, file))
    project(tmp_path, {".amlignore": f"!{os.path.basename(name)}/\n"})
    assert explain(root, file) is None


@pytest.mark.parametrize(("mode", "is_excluded"), [(0o600, True), (0o400, True), (0o644, False)])
def test_private_key_of_any_name_is_known_by_its_mode_and_content(tmp_path: Path, mode: int, is_excluded: bool) -> None:
    root = project(tmp_path, {"work": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl", "notes": KEY[5:]})
    (tmp_path / "work").chmod(mode)
    (tmp_path / "notes").chmod(mode)
    assert (explain(root, "work") is not None) == is_excluded
    assert explain(root, "notes") is None


@pytest.mark.parametrize("name", HARMLESS)
def test_names_that_only_look_alike_travel(tmp_path: Path, name: str) -> None:
    assert explain(project(tmp_path, {name: HARMLESS[name]}), name) is None


CLASSES = ["alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit"]
SETS = [
    "[a-c]",
    "[a\\-c]",
    "[a-\\c]",
    "[\\a-c]",
    "[]-a]",
    "[--a]",
    "[a-c-e]",
    "[!a-c]",
    "[^a-c]",
    "[a-]",
    "[-a]",
    "[\\]]",
]
SETS += [*(f"[[:{name}:]]" for name in CLASSES), "[![:alnum:]]", "[[:digit:]-z]", "[[:digit:]a-c]", "[c-a]", "[a-a]"]
SETS += [
    "[a-",
    "[a-\\",
    "[\\",
    "[!",
    "[",
    "[[:none:]]",
    "[[:alpha:",
    "[[:]",
    "[[:]]",
    "[[::]]",
    "[[:a]",
    "[]",
    "[!]",
    "[!]a]",
]
SETS += [
    f"{before}{glob}{after}"
    for glob in ("[a-\\c]", "[[:digit:]]", "[!a]")
    for before in ("x", "xy")
    for after in ("", "z")
]
SETS += ["*ab*cd*", "*ab*ab*", "a*ab*b", "*?b*?d", "**b", "a**", "*a?", "?*", "*[ab]*[cd]", "a\\*b", "a\\", "\\a*"]


def test_git_agrees_on_sets_and_pieces(tmp_path: Path) -> None:
    """Each pattern in a folder of its own, against every byte and against short names."""
    git(tmp_path, "init", "-q")
    names = [bytes((code,)) for code in range(1, 128) if code not in b"/.\n"]
    names += [
        before + bytes((code,)) + after for code in b"abcd059Z-]\\" for before in (b"x", b"xy") for after in (b"", b"z")
    ]
    names += [
        b"abcd",
        b"cdab",
        b"xabxcdx",
        b"abab",
        b"aab",
        b"ab",
        b"abb",
        b"aabb",
        b"aababb",
        b"ac",
        b"bd",
        b"a*b",
        b"axb",
    ]
    names += [
        b"ab]",
        b"a]",
        b"!a]",
        b"[a",
        b"[",
        b"[!",
        b"[a-",
        b"[]",
        b"abcdcdab",
        b"xbxd",
        b"bxd",
        b"cdabxcd",
        b"a\\",
    ]
    for number, pattern in enumerate(SETS):
        (tmp_path / f"f{number}").mkdir()
        (tmp_path / f"f{number}" / ".gitignore").write_text(f"{pattern}\n")
    paths = [b"f%d/%s" % (number, name) for number in range(len(SETS)) for name in names]
    theirs = answers_of_git(tmp_path, paths)
    top = os.fsencode(tmp_path)
    different = []
    for number, pattern in enumerate(SETS):
        folder = b"f%d" % number
        rules = Rules.of_project(top, os.listdir(top)).inside(os.path.join(top, folder), folder, [b".gitignore"])
        for name in names:
            path = folder + b"/" + name
            if bool(rules.leaves_out(name, path, is_folder=False)) != bool(theirs[path]):
                different.append((pattern, name))
    assert different == []


def test_later_patterns_decide_among_simple_and_starred_ones(tmp_path: Path) -> None:
    lines = ["a*", "!ab", "*a*b*", "!x*a*b*y", "abc", "!*c*c", "abcc"]
    (tmp_path / ".gitignore").write_text("\n".join(lines) + "\n")
    git(tmp_path, "init", "-q")
    names = [b"a", b"ab", b"axb", b"xaby", b"xab", b"abc", b"cc", b"acc", b"abcc", b"b"]
    theirs = answers_of_git(tmp_path, names)
    rules = Rules.of_project(os.fsencode(tmp_path), [b".gitignore"])
    assert {name: rules.leaves_out(name, name, is_folder=False) for name in names} == theirs


def test_patterns_of_nested_files_are_limited_together(tmp_path: Path) -> None:
    """A limit per file alone lets a chain of folders multiply the work for each file below it."""
    folder = tmp_path
    for _ in range(4):
        (folder / ".gitignore").write_text("".join(f"*a{number}*b*c\n" for number in range(3000)))
        folder = folder / "d"
        folder.mkdir()
    with pytest.raises(ConfigError, match="more than 10000 patterns apply to this folder") as refused:
        walk(tmp_path)
    assert refused.value.where == "d/d/d/.gitignore:1001"


def test_patterns_of_side_by_side_folders_are_not_added_up(tmp_path: Path) -> None:
    for name in "pqrs":
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitignore").write_text("".join(f"x{number}\n" for number in range(3000)))
        (tmp_path / name / "x2999").touch()
        (tmp_path / name / "y").touch()
    verdicts = walk(tmp_path)
    assert [verdicts[name.encode() + b"/y"] for name in "pqrs"] == [None] * 4
    assert all(verdicts[name.encode() + b"/x2999"] for name in "pqrs")


def test_bracket_in_a_set_is_a_letter_unless_a_colon_follows(tmp_path: Path) -> None:
    root = project(tmp_path, {".gitignore": "[[ab:]\n", "a": "", "b.txt": ""})
    assert explain(root, "a") == Rule(".gitignore", 1, "[[ab:]")
    assert explain(root, "b.txt") is None
