"""Messages of the pages in other languages: one catalogue file per language, from the English text."""

from __future__ import annotations

import functools
import os

from holdfast.runner import json_text

NAMES = {
    "en": "English",
    "ja": "日本語",
    "zh-TW": "繁體中文",
    "de": "Deutsch",
    "fr": "Français",
    "pt-BR": "Português (Brasil)",
}
_HERE = os.path.dirname(os.path.abspath(__file__))


def choose(preferred: str, accepted: str) -> str:
    """The language of a page: what was chosen, else the first of the browser's that there is."""
    if preferred in NAMES:
        return preferred
    for part in accepted[:500].split(","):
        wanted = part.partition(";")[0].strip().lower()
        for name in NAMES:
            if wanted == name.lower() or wanted.split("-")[0] == name.split("-")[0].lower():
                return name
    return "en"


def translate(language: str, message: str) -> str:
    return catalogue(language).get(message, message)


@functools.cache
def catalogue(language: str) -> dict[str, str]:
    if language == "en":
        return {}
    with open(os.path.join(_HERE, f"{language}.json"), encoding="utf-8") as source:
        result: dict[str, str] = json_text.loads(source.read())
    return result
