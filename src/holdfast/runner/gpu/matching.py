"""Which GPUs a request can be served with, and which of them a process may see (pure)."""

MYPY = False
if MYPY:
    from typing import Any

    from ..plan import GpuRequest


def fitting(cards: "list[dict[str, Any]]", request: "GpuRequest") -> "list[dict[str, Any]]":
    """Cards that this request could be served with at some time, whatever runs on them now."""
    return [
        card
        for card in cards
        if card.get("uuid")
        and not card.get("trouble")
        and not card.get("mig")
        and request.name.lower() in str(card.get("name") or "").lower()
        and (card.get("memory_total") or 0) >= request.memory
    ]


def impossible(cards: "list[dict[str, Any]]", request: "GpuRequest") -> "str":
    """Why this request can never be served here; empty if it can."""
    fits = fitting(cards, request)
    wanted = request.count if isinstance(request.count, int) else 1
    if len(fits) >= wanted:
        return ""
    description = "%d GPU%s" % (wanted, "s" if wanted > 1 else "")
    description += " named %s" % request.name if request.name else ""
    description += " with %.3g GB" % (request.memory / 1e9) if request.memory else ""
    there = ", ".join(
        "%s (%.3g GB%s%s)"
        % (
            card.get("name") or "GPU %s" % card.get("index"),
            (card.get("memory_total") or 0) / 1e9,
            ", with MIG enabled" if card.get("mig") else "",
            ", " + card["trouble"] if card.get("trouble") else "",
        )
        for card in cards
    )
    return "%s requested, but this machine has %s" % (description, there or "none")


def visible(cards: "list[dict[str, Any]]", setting: "str | None") -> "list[dict[str, Any]]":
    """Those that CUDA_VISIBLE_DEVICES leaves us: numbers, or beginnings of UUIDs; as in CUDA a bad one ends it."""
    if setting is None:
        return cards
    chosen = []  # type: list[dict[str, Any]]
    for word in setting.split(","):
        match = [card for card in cards if _is_named(card, word.strip())]
        if len(match) != 1 or match[0] in chosen:
            break
        chosen += match
    return chosen


def _is_named(card: "dict[str, Any]", word: "str") -> "bool":
    if word.isdigit():
        return word == str(card.get("index"))
    return word.startswith("GPU-") and str(card.get("uuid")).startswith(word)
