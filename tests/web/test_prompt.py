"""The command prompt: off by default, a shell of the user with ``--terminal``, and harmless whatever is printed."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from conftest import eventually
from holdfast.web.terminal.screen import Screen
from web.client import Server
from web.test_browser import ALL_RULES, AXE, CHROMIUM, COLOURS, FAULTS, browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from conftest import Desk

__all__ = ["browser"]  # the fixture
QUESTIONS = r"""
import select, sys, termios, tty
before = termios.tcgetattr(0)
tty.setcbreak(0)
sys.stdout.write("\033[6n\033[c\033[>c\033[5n\033]11;?\007\033[21t\005\033P$qm\033\\\\ a\u202eb\u200bc\n")
sys.stdout.flush()
answers = select.select([0], [], [], 1.0)[0]
termios.tcsetattr(0, termios.TCSADRAIN, before)
print(f"answers={answers}")
"""

HOLD_ANSWERS = r"""
const plain = window.fetch;
window.isHeld = false;
window.fetch = async (...request) => {
  const answer = await plain(...request);
  const isScreen = /\/prompts\/[0-9a-f]+\.json$/.test(request[0]);
  if (isScreen && window.isHeld) await new Promise((done) => { window.letGo = done; });
  return answer;
};
"""


def _text(screen: Screen) -> list[str]:
    return ["".join(text for _, text in pieces) for pieces in screen.lines()]


def _screen(data: str, rows: int = 4, columns: int = 10) -> Screen:
    screen = Screen(rows, columns)
    screen.feed(data.encode())
    return screen


def test_screen_is_drawn_as_a_terminal_does() -> None:
    assert _text(_screen("one\r\ntwo\b\bW\r\n\tx")) == ["one", "tWo", "        x", ""]
    assert _text(_screen("0123456789ab")) == ["0123456789", "ab", "", ""]
    assert _text(_screen("a\x1b[3;5Hb\x1b[1;1Hc\x1b[2Bd")) == ["c", "", " d  b", ""]
    assert _text(_screen("abcdef\r\x1b[2Cx\x1b[K")) == ["abx", "", "", ""]
    assert _text(_screen("abc\x1b[2J\x1b[Hz")) == ["z", "", "", ""]
    assert _text(_screen("abcd\r\x1b[2P\x1b[@!")) == ["!cd", "", "", ""]
    assert _text(_screen("1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n5")) == ["1", "3", "5", "4"]
    assert _text(_screen("1\r\n2\r\n3\x1b[1;1H\x1bM0")) == ["0", "1", "2", "3"]
    assert _text(_screen("\x1b(0qx\x1b(Bq")) == ["─│q", "", "", ""]
    assert _text(_screen("日本e\u0301")) == ["日本e\u0301", "", "", ""]


def test_lines_that_leave_the_screen_are_kept_and_an_editor_leaves_nothing() -> None:
    screen = _screen("".join(f"{number}\r\n" for number in range(10)))
    assert ["".join(text for _, text in pieces) for pieces in screen.above] == [str(n) for n in range(7)]
    screen.feed(b"\x1b[?1049h\x1b[2Jeditor\r\n\n\n\n\n\n\x1b[?1049l")
    assert _text(screen) == ["7", "8", "9", ""]
    assert len(screen.above) == 7
    screen.resize(2, 5)
    assert _text(screen) == ["9", ""]


def test_sequences_come_in_pieces_and_colours_as_classes() -> None:
    screen = Screen(2, 20)
    for byte in "\x1b[1;31mré\x1b[0m \x1b[38;5;21mb\x1b[48;2;250;0;0mc\x1b[m".encode():
        screen.feed(bytes((byte,)))
    assert screen.lines()[0] == [("bold fg-red", "ré"), ("", " "), ("fg-blue", "b"), ("bg-red fg-blue", "c")]


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]52;c;cm0gLXJmIC8K\x07",  # the clipboard
        "\x1b]8;;http://evil.example\x1b\\",  # a link
        "\x1b]0;title\x07",
        "\x1bP$qm\x1b\\",  # questions
        "\x1b[6n\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[21t",
        "\x05",
        "\x1b_Gpayload\x1b\\",
    ],
)
def test_sequences_that_act_outside_the_screen_are_dropped(text: str) -> None:
    assert _text(_screen(f"a{text}b"))[0] == "ab"


def test_damaged_sequences_break_nothing() -> None:
    for data in (
        "\x1b[" + "9" * 9000 + "m",
        "\x1b[99999;99999H",
        "\x1b[9999L\x1b[9999M\x1b[9999P\x1b[9999@",
        "\x1b]" * 9999,
    ):
        screen = _screen(data)
        screen.feed(b"\x1b[2J\x1b[Hend")
        assert len(screen.lines()) == 4
    rng_bytes = bytes(number * 7919 % 256 for number in range(20_000))
    screen = Screen(5, 7)
    screen.feed(rng_bytes)
    for rows, columns in ((2, 10), (40, 3), (5, 7)):
        screen.resize(rows, columns)
        screen.feed(rng_bytes)
        assert [len(line) <= columns for line in _text(screen)] == [True] * rows


@pytest.fixture(scope="module")
def prompting(desk: Desk) -> Iterator[Server]:
    server = Server(desk, "--port", "0", "--terminal").sign_in()
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="module")
def project(server: Server) -> str:
    return str(next(row["id"] for row in server.get("/projects.json").json if row["runs"]))


def test_prompts_are_off_by_default(desk: Desk, server: Server, project: str, uid: str) -> None:
    for path in (f"/projects/{project}/prompt", f"/runs/{uid}/prompt", "/prompts/0/keys", "/prompts/0/close"):
        assert server.post(path, {}).status == 403, path
    for path in ("/prompts", "/prompts.json", "/prompts/0", "/prompts/0.json"):
        assert server.get(path).status == 403, path
    for path in ("/runs", f"/runs/{uid}", f"/projects/{project}"):
        assert "prompt" not in server.get(path).text.lower(), path
    refused = desk.holdfast("ui", "--no-open", "--terminal", "--read-only")
    assert (refused.code, "not both" in refused.err) == (2, True)


def test_prompts_are_opened_and_typed_into_by_pages_of_this_server_alone(prompting: Server, project: str) -> None:
    path = f"/projects/{project}/prompt"
    assert prompting.post(path, {}, signed_in=False).status == 401
    assert prompting.post(path, {}, {"Origin": "http://evil.example"}).status == 403
    assert prompting.get(path).status == 405
    assert prompting.get("/prompts.json").json == []
    prompt = _opened(prompting, path)
    assert prompting.post(f"{prompt}/keys", {"keys": "x"}, {"Origin": "http://evil.example"}).status == 403
    assert prompting.post(f"{prompt}/keys", {"keys": "x"}, {"Sec-Fetch-Site": "same-site"}).status == 403
    assert prompting.post(f"{prompt}/keys", {"keys": "x" * 200_000}).status == 413
    _close(prompting, prompt)


def test_prompt_is_the_shell_of_the_project(desk: Desk, prompting: Server, project: str) -> None:
    prompt = _opened(prompting, f"/projects/{project}/prompt")
    _type(prompting, prompt, "pwd; echo $HOLDFAST_SHELL-$TERM; stty size\r", rows="30", columns="300")
    _wait_for(prompting, prompt, str(desk.project), f"{desk.project.name}-xterm-256color", "30 300")
    _type(prompting, prompt, "echo go$((1+1)); sleep 1000\r")
    _wait_for(prompting, prompt, "go2")
    _type(prompting, prompt, "\x03")
    _type(prompting, prompt, "echo inter$((1+1))rupted\r")
    _wait_for(prompting, prompt, "inter2rupted")
    _type(prompting, prompt, "exit\r")
    eventually(lambda: prompting.get(f"{prompt}.json").json["ended"])
    prompting.post(f"{prompt}/keys", {"keys": "x"})


def test_prompt_beside_a_run_is_in_its_folder(desk: Desk, prompting: Server, uid: str) -> None:
    prompt = _opened(prompting, f"/runs/{uid}/prompt")
    _type(prompting, prompt, "pwd\r", rows="24", columns="300")  # a path is on one line
    _wait_for(prompting, prompt, uid)
    assert desk.project.name in prompting.get("/prompts").text or "local" in prompting.get("/prompts").text
    _close(prompting, prompt)


def test_output_answers_nothing_and_hides_nothing(desk: Desk, prompting: Server, project: str) -> None:
    """What a terminal would answer to a question would be typed into the shell."""
    desk.script(QUESTIONS, "questions.py")
    prompt = _opened(prompting, f"/projects/{project}/prompt")
    _type(prompting, prompt, "python questions.py\r")
    _wait_for(prompting, prompt, "answers=[]", "a\\u202eb\\u200bc")
    _close(prompting, prompt)


def test_prompt_is_interrupted_and_closed_where_the_server_ignores_these_signals(desk: Desk, project: str) -> None:
    """As ``nohup`` and a script's background do; what is ignored stays ignored in the programs that it starts."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGINT)}
    try:
        server = Server(desk, "--port", "0", "--terminal").sign_in()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    prompt = _opened(server, f"/projects/{project}/prompt")
    _type(server, prompt, "echo be$((1+1))in; sleep 1000\r")
    _wait_for(server, prompt, "be2in")
    _type(server, prompt, "\x03echo inter$((1+1))rupted\r")
    _wait_for(server, prompt, "inter2rupted")
    _close(server, prompt)
    server.stop()


@pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
def test_answer_that_is_older_than_the_page_changes_nothing(desk: Desk, browser: Browser) -> None:
    """The page asks for the whole screen when it is connected, and lines may come while the answer is on its way."""
    server = Server(desk, "--port", "0", "--terminal")
    try:
        page = (context := browser.new_context(bypass_csp=True)).new_page()
        page.goto(f"http://{server.host}/projects")
        page.locator("#code").fill(server.code)
        page.locator("button").click()
        page.get_by_role("link", name=desk.project.name, exact=True).click()
        page.add_init_script(HOLD_ANSWERS)
        page.get_by_role("button", name="Open Command Prompt").click()
        page.locator("#prompt[data-ready]").wait_for()
        page.keyboard.type("echo fir$((1+1))t\n")
        expect(page.locator("#screen")).to_contain_text("fir2t", timeout=20_000)
        page.evaluate("window.isHeld = true; dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
        page.wait_for_function("window.letGo !== undefined")
        page.keyboard.type("echo la$((1+1))er\n")
        expect(page.locator("#screen")).to_contain_text("la2er", timeout=20_000)
        page.evaluate("letGo()")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert "la2er" in page.locator("#screen").inner_text()
        context.close()
    finally:
        server.stop()


@pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: chromium is not installed")
def test_prompt_in_a_browser(desk: Desk, browser: Browser) -> None:
    server = Server(desk, "--port", "0", "--terminal")
    try:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, bypass_csp=True)
        page = context.new_page()
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"http://{server.host}/projects")
        page.locator("#code").fill(server.code)
        page.locator("button").click()
        page.get_by_role("link", name=desk.project.name, exact=True).click()
        page.get_by_role("button", name="Open Command Prompt").click()
        page.wait_for_url(re.compile(r"/prompts/[0-9a-f]+$"))
        page.locator("#prompt[data-ready]").wait_for()
        page.keyboard.type("echo one$((1+1))three '<script>window.broken=1</script>'\n")
        expect(page.locator("#screen div").filter(has_text="one2three <script>").last).to_be_visible(timeout=20_000)
        assert page.locator("#prompt").evaluate("prompt => prompt.scrollTop") == 0  # its first line is seen
        page.keyboard.type("for n in $(seq 200); do echo line $n.; done\n")
        expect(page.locator("#screen")).to_contain_text("line 200.")
        lines = [text for text in page.locator("#screen div").all_inner_texts() if text.strip().startswith("line ")]
        assert [line.strip() for line in lines] == [f"line {number}." for number in range(1, 201)]
        whole = page.locator("#screen").inner_text().strip()
        page.reload()
        page.locator("#prompt[data-ready]").wait_for()
        assert page.locator("#screen").inner_text().strip() == whole
        page.add_script_tag(path=str(AXE))
        assert page.evaluate(FAULTS, ALL_RULES) == []
        if folder := os.environ.get("HOLDFAST_SCREENSHOTS"):
            page.screenshot(path=f"{folder}/prompt-light.png")
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(FAULTS, COLOURS) == []
        page.set_viewport_size({"width": 320, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        page.locator("#keys").focus()
        page.keyboard.press("Shift+Tab")
        assert page.evaluate("document.activeElement.id") != "keys"
        assert page.evaluate("window.broken === undefined")
        page.get_by_role("link", name="Command prompts").click()
        page.add_script_tag(path=str(AXE))
        assert page.evaluate(FAULTS, ALL_RULES) == []
        page.get_by_role("button", name="Close").click()
        expect(page.get_by_text("ended")).to_be_visible()
        assert problems == []
        context.close()
    finally:
        server.stop()


def _opened(server: Server, path: str) -> str:
    answer = server.post(path, {})
    assert answer.status == 303, answer
    return answer.headers["location"]


def _type(server: Server, prompt: str, keys: str, **size: str) -> None:
    assert server.post(f"{prompt}/keys", {"keys": keys, **size}).status == 204


def _shown(server: Server, prompt: str) -> str:
    screen: dict[str, Any] = server.get(f"{prompt}.json").json
    rows = [*screen["above"], *screen["lines"].values()]
    return "\n".join("".join(text for _, text in row) for row in rows)


def _wait_for(server: Server, prompt: str, *texts: str) -> None:
    eventually(lambda: all(text in _shown(server, prompt) for text in texts))


def _close(server: Server, prompt: str) -> None:
    assert server.post(f"{prompt}/close", {}).status == 303
    eventually(lambda: server.get(f"{prompt}.json").json["ended"])
