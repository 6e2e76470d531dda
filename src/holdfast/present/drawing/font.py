"""Letters of 5 x 9 dots, the lowest two rows being for those that reach below the line; ASCII only."""

from __future__ import annotations

WIDE, HIGH, ABOVE = 5, 9, 7
ADVANCE = WIDE + 1
_FIRST, _LAST = 32, 126
_DIGITS = "0123456789abcdefghijklmnopqrstuv"


def rows(sign: str) -> tuple[int, ...]:
    """Nine rows from the top, five bits each, the highest on the left; a question mark for what is not ASCII."""
    code = ord(sign) if _FIRST <= ord(sign) <= _LAST else ord("?")
    start = (code - _FIRST) * HIGH
    return tuple(_DIGITS.index(digit) for digit in _GLYPHS[start : start + HIGH])


# From the blank on in the order of ASCII; a digit to the base of 32 is a row.
_GLYPHS = (
    "000000000444440400aaa000000aavavaa004fke5u400pp248jj00ciicjid0044400000024888420084222480004lel4000"
    "044v44000000004480000v0000000000cc0011248gg00ehjlphe004c4444e00eh1248v00v2421he0026aiv2200vgu11he00"
    "68guhhe00v12448800ehhehhe00ehhf12c000cc0cc0000cc0c4800248g8420000v0v0000842124800eh1240400ehnlmge00"
    "ehhvhhh00uhhuhhu00ehggghe00sihhhis00vgguggv00vgguggg00ehgnhhf00hhhvhhh00e44444e0072222ic00hikokih00"
    "ggggggv00hrllhhh00hppljjh00ehhhhhe00uhhuggg00ehhhlid00uhhukih00fgge11u00v44444400hhhhhhe00hhhhha400"
    "hhhllla00hha4ahh00hha444400v1248gv00e88888e00gg8421100e22222e004ah000000000000v0084000000000e1fhf00"
    "gguhhhu0000egghe0011fhhhf0000ehvge00698s8880000fhhhf1egguhhhh0040c444e002062222icggikoki00c44444e00"
    "00qllll0000uhhhh0000ehhhe0000uhhhugg00fhhhf1100mpggg0000fge1u0088s88960000hhhhf0000hhha40000hhlla00"
    "00ha4ah0000hhhhf1e00v248v00344844300444444400o44244o00008l20000"
)
