"""Durations and sizes as people write them: ``90``, ``30s``, ``4h``, ``1h30m``, ``2d``; ``500MB``, ``24 GiB``."""

from __future__ import annotations

_SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "B": 1} | {
    letter + suffix: base**power
    for power, letter in enumerate("KMGT", start=1)
    for suffix, base in (("", 1000), ("B", 1000), ("iB", 1024))
}


def parse_duration(text: str) -> float | None:
    """Seconds, or ``None`` if this is not a positive duration."""
    units = {unit.upper(): factor for unit, factor in _SECONDS.items()}
    parts = [_amount(part, units) for part in _parts(text)]
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def parse_size(text: str) -> int | None:
    """Bytes, or ``None`` if this is not a positive size. ``K`` is 1000 and ``Ki`` 1024, in any case."""
    amount = _amount(text, {unit.upper(): factor for unit, factor in _BYTES.items()})
    return None if amount is None else int(amount)


def _parts(text: str) -> list[str]:
    """``1h30m`` is ``1h`` and ``30m``: a new part begins where a digit follows a letter."""
    parts = [""]
    for letter in text.strip():
        if letter.isdigit() and parts[-1].rstrip()[-1:].isalpha():
            parts.append("")
        parts[-1] += letter
    return parts


def _amount(text: str, units: dict[str, int]) -> float | None:
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    factor = units.get(text.strip()[len(number) :].strip().upper())
    if factor is None or not number.isascii() or not number.replace(".", "", 1).isdigit():
        return None
    amount = float(number) * factor
    return amount if 0 < amount < 1e18 else None
