"""The page that tells what the soak found; each test has its own section there and leaves the others alone."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "soak.md"


def write_section(title: str, text: str) -> None:
    """At the end of the page, in the place of an older section of this title."""
    others = "".join(before for name, before in _sections(_page()) if name != title).rstrip()
    PAGE.write_text(f"{others}\n\n## {title}\n\n{text.strip()}\n", encoding="utf-8")


def write_beginning(text: str) -> None:
    """The page anew, with the sections behind it that are not in this text."""
    ours = {name for name, _ in _sections(text)}
    others = "".join(before for name, before in _sections(_page()) if name not in ours)
    PAGE.write_text(f"{text.rstrip()}\n\n{others}".rstrip() + "\n", encoding="utf-8")


def _sections(page: str) -> list[tuple[str, str]]:
    """Titles and whole texts; what stands before the first title has an empty one."""
    parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    return [(part.partition("\n")[0].removeprefix("## ") if part.startswith("## ") else "", part) for part in parts]


def _page() -> str:
    return PAGE.read_text(encoding="utf-8")
