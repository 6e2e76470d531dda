"""Bytes from elsewhere as text and back, one function per purpose: nothing here raises because of what they hold."""


def readable(data: "bytes") -> "str":
    """Output and messages for people: what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", "replace")


def escaped(data: "bytes") -> "str":
    r"""Names for people that stay distinct: what is not UTF-8 becomes ``\xNN``."""
    return data.decode("utf-8", "backslashreplace")


def lossless(data: "bytes") -> "str":
    """Paths, names and arguments: ``as_bytes`` gives the same bytes again."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: "object") -> "bytes":
    """The bytes of such a path, name or argument."""
    return str(text).encode("utf-8", "surrogateescape")
