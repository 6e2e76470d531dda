"""Patterns of ignore files with git's meaning (wildmatch), matched in time that grows with pattern times text.

A pattern with at most one ``*`` or ``**`` becomes part of one regular expression for all of them: with a single place
of variable length there is nothing to backtrack into. One with several is matched piece by piece: what stands between
two stars has a fixed length, so that its leftmost place is always the right one.
"""

MYPY = False
if MYPY:
    import re  # noqa: F401 - in comments
    from collections.abc import Collection
    from typing import TypeAlias

    # A token is the expression of one byte (a literal byte has one or two characters), or one of the names below.
    Token: TypeAlias = bytes

_SLASH = b"/"
_STAR = b"*"  # any bytes of one name
_FOLDERS = b"**/"  # any number of folders, with the slash behind them
_REST = b"**"  # at least one name, and all that follows
_VARIABLE = frozenset((_STAR, _FOLDERS, _REST))
_ANY = b"[^/]"  # names hold no slash
_MOST_TOGETHER = 200  # a longer list of alternatives takes longer than the patterns one by one


class Globs:
    """Many patterns; ``last`` finds the one that was added last among those that match."""

    def __init__(self) -> "None":
        self._simple = []  # type: list[tuple[int, bytes]]
        self._others = []  # type: list[tuple[int, bytes, _Glob]]
        self._compiled = None  # type: re.Pattern[bytes] | None

    def __bool__(self) -> "bool":
        return bool(self._simple or self._others)

    def add(self, index: "int", plain: "bytes", glob: "bytes", *, in_path: "bool") -> "None":
        """``plain`` is a beginning without wildcards. Without ``in_path`` the pattern is compared with names."""
        import re

        tokens = _tokens(glob, in_path)
        if tokens is None:
            return
        if sum(token in _VARIABLE for token in tokens) > 1 or len(self._simple) == _MOST_TOGETHER:
            self._others.append((index, _longest_literal(tokens), _Glob(plain, tokens)))
            return
        expressions = {_STAR: b"[^/]*" if in_path else b".*", _FOLDERS: b"(?:.*/)?", _REST: b".*"}
        source = b"".join(expressions.get(token, token) for token in tokens)
        self._simple.append((index, re.escape(plain) + source))

    def last(self, text: "bytes") -> "int":
        """The index of the last pattern that matches, or -1."""
        best = self._last_simple(text) if self._simple else -1
        for index, literal, glob in reversed(self._others):
            if index < best:
                break
            if literal in text and glob.matches(text):  # the first question takes a hundredth of the second
                return index
        return best

    def _last_simple(self, text: "bytes") -> "int":
        if self._compiled is None:  # made at the first question: most folders never ask
            import re

            # The last glob stands first: the group that matched is then the one that decides.
            choices = b"|".join(b"(%s)" % source for _, source in reversed(self._simple))
            self._compiled = re.compile(choices, re.DOTALL)
        match = self._compiled.fullmatch(text)
        return self._simple[-(match.lastindex or 0)][0] if match else -1


def _longest_literal(tokens: "list[Token]") -> "bytes":
    """The longest run of plain bytes within one name: a text without it does not match."""
    runs = [b""]
    for token in tokens:
        if token in _VARIABLE or token == _SLASH or len(token) > 2:
            runs.append(b"")
        else:
            runs[-1] += token[-1:]
    return max(runs, key=len)


class _Glob:
    """A pattern name by name; None stands for any number of names."""

    def __init__(self, plain: "bytes", tokens: "list[Token]") -> "None":
        self._plain = plain
        self._names = []  # type: list[_Name | None]
        waiting = []  # type: list[Token]
        for token in tokens:
            if token == _FOLDERS:
                self._names.append(None)
            elif token == _SLASH:
                self._names += _names(waiting)
                waiting = []
            else:
                waiting.append(token)
        self._names += _names(waiting)

    def matches(self, text: "bytes") -> "bool":
        if not text.startswith(self._plain):
            return False
        wanted, parts = self._names, text[len(self._plain) :].split(b"/")
        at = here = begun = 0
        star = -1
        while here < len(parts):
            name = wanted[at] if at < len(wanted) else None
            if name is not None and name.matches(parts[here]):
                at, here = at + 1, here + 1
            elif at < len(wanted) and name is None:
                star, begun, at = at, here, at + 1
            elif star >= 0:  # only the last star can still take more: an earlier one would gain nothing
                begun += 1
                at, here = star + 1, begun
            else:
                return False
        return all(name is None for name in wanted[at:])


def _names(tokens: "list[Token]") -> "list[_Name | None]":
    return [None, _Name([_STAR])] if tokens == [_REST] else [_Name(tokens)]


class _Name:
    """A pattern of one name: pieces of fixed length with a star between each two."""

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, tokens: "list[Token]") -> "None":
        pieces = [[]]  # type: list[list[Token]]
        for token in tokens:
            if token != _STAR:
                pieces[-1].append(token)
            elif pieces[-1] or len(pieces) == 1:
                pieces.append([])
        self._first = _Piece(pieces[0])
        self._last = _Piece(pieces[-1]) if len(pieces) > 1 else None
        self._middle = [_Piece(piece) for piece in pieces[1:-1]]

    def matches(self, name: "bytes") -> "bool":
        if self._last is None:
            return len(name) == self._first.length and self._first.find(name, 0, len(name)) == 0
        at, end = self._first.length, len(name) - self._last.length
        if end < at or self._first.find(name, 0, at) < 0 or self._last.find(name, end, len(name)) < 0:
            return False
        for piece in self._middle:
            position = piece.find(name, at, end)
            if position < 0:
                return False
            at = position + piece.length
        return True


class _Piece:
    """Bytes, or sets of them, one behind the other."""

    __slots__ = ("_expression", "_literal", "length")

    def __init__(self, tokens: "list[Token]") -> "None":
        self.length = len(tokens)
        self._literal = b"".join(token[-1:] for token in tokens if len(token) < 3)
        self._expression = None
        if len(self._literal) < self.length:
            import re

            self._expression = re.compile(b"".join(tokens), re.DOTALL)

    def find(self, name: "bytes", start: "int", end: "int") -> "int":
        if self._expression is None:
            return name.find(self._literal, start, end)
        match = self._expression.search(name, start, end)
        return -1 if match is None else match.start()


def plain_length(glob: "bytes") -> "int":
    return min((at for at in map(glob.find, (b"*", b"?", b"[", b"\\")) if at >= 0), default=len(glob))


def _tokens(glob: "bytes", in_path: "bool") -> "list[Token] | None":
    """What git's wildmatch reads in a pattern; None where it accepts nothing."""
    import re

    tokens = []
    at = 0
    while at < len(glob):
        char = glob[at : at + 1]
        if char == b"*":
            token, at = _stars(glob, at, in_path)
        elif char == b"[":
            bracket = _translate_bracket(glob, at + 1, in_path)
            if bracket is None:
                return None
            token, at = bracket
        elif char == b"?":
            token, at = _ANY, at + 1
        else:
            at += char == b"\\"
            if at == len(glob):
                return None
            token, at = re.escape(glob[at : at + 1]), at + 1
        tokens.append(token)
    return tokens


def _stars(glob: "bytes", start: "int", in_path: "bool") -> "tuple[Token, int]":
    end = start
    while glob[end : end + 1] == b"*":
        end += 1
    after = glob[end : end + 2]  # a copy of all the rest, for each star, would take the square of the length
    crosses = (
        end - start > 1
        and (start == 0 or glob[start - 1 : start] == b"/")
        and (not after or after.startswith((b"/", b"\\/")))
    )
    if not in_path or not crosses:
        return _STAR, end
    return (_FOLDERS, end + 1) if after.startswith(b"/") else (_REST, end)


def _translate_bracket(glob: "bytes", at: "int", in_path: "bool") -> "tuple[bytes, int] | None":
    """The set behind a ``[`` and where it ends; None if it never ends or names an unknown class."""
    import re

    negated = glob[at : at + 1] in (b"!", b"^") and at < len(glob)
    start = at = at + negated
    members = set()  # type: set[int]
    previous = 0
    while at == start or glob[at : at + 1] != b"]":
        step = _bracket_member(glob, at, previous)
        if step is None:
            return None
        more, previous, at = step
        members.update(more)
    if negated:
        members.update(b"/" if in_path else b"")
        listed = b"".join(re.escape(bytes((code,))) for code in sorted(members))
        return (b"[^%s]" % listed if listed else _ANY), at + 1
    members.difference_update(b"/" if in_path else b"")
    listed = b"".join(re.escape(bytes((code,))) for code in sorted(members))
    return (b"[%s]" % listed if listed else b"(?!)"), at + 1


def _bracket_member(glob: "bytes", at: "int", previous: "int") -> "tuple[Collection[int], int, int] | None":
    """What one step through a set adds, what a following ``-`` would start from, and where to go on."""
    char = glob[at : at + 1]
    if char == b"\\":
        at += 1
    elif char == b"-" and previous and glob[at + 1 : at + 2] not in (b"", b"]"):
        at += 1 + (glob[at + 1 : at + 2] == b"\\")
        return (range(previous, glob[at] + 1), 0, at + 1) if at < len(glob) else None
    elif char == b"[" and glob[at + 1 : at + 2] == b":":
        end = glob.find(b"]", at + 2)
        if end < 0:
            return None
        if end > at + 2 and glob[end - 1 : end] == b":":
            members = _CLASSES.get(glob[at + 2 : end - 1])
            return None if members is None else (members, 0, end + 1)
    if at >= len(glob):
        return None
    return (glob[at],), glob[at], at + 1


_DIGITS = b"0123456789"
_LOWER = b"abcdefghijklmnopqrstuvwxyz"
_UPPER = _LOWER.upper()
_CLASSES = {  # type: dict[bytes, Collection[int]]
    b"alnum": _DIGITS + _LOWER + _UPPER,
    b"alpha": _LOWER + _UPPER,
    b"blank": b" \t",
    b"cntrl": bytes((*range(32), 127)),
    b"digit": _DIGITS,
    b"graph": bytes(range(33, 127)),
    b"lower": _LOWER,
    b"print": bytes(range(32, 127)),
    b"punct": b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    b"space": b" \t\n\r",  # git's own idea of a space
    b"upper": _UPPER,
    b"xdigit": _DIGITS + b"abcdefABCDEF",
}
