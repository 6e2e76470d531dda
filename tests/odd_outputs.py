"""Names that a script may give to its outputs, and a script that writes one file under each of them."""

from __future__ import annotations

NAMES = [
    *(b"model.bin", b"model.bin.part", b"back\\slash", b"a" * 252, b"b" * 255, b"new\nline", b"-rf", b"caf\xe9"),
    *(
        "é".encode(),
        "e\u0301".encode(),
        b"Case",
        b"case",
        b"deep/" * 100 + b"file",
        b"x",
        b"x.part/y",
        b" ",
        b"'$(id)`",
    ),
    *(b"arriving", b"outputs.jsonl", b"COM1", b"c:d", b"*?", "\u202eexe.txt".encode()),
]
WRITES = f"""
import os
for number, name in enumerate({NAMES!r}):
    path = os.path.join(b'outputs', name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'wb').write(b'%d' % number)
"""
