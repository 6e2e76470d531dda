"""Signatures by the user's own SSH key and the user's own ``ssh-keygen``; agents included.

A signature may be written in many ways that all hold. Only one of them is taken: what ``canonical`` makes of it.
"""

from __future__ import annotations

import binascii
import hashlib
import os
import struct
import subprocess
import tempfile
from base64 import b64decode, b64encode

from holdfast.errors import PassportError, UsageError
from holdfast.record import Record
from holdfast.runner.decoding import readable

NAMESPACE = "holdfast-passport"
_BEGIN, _END = b"-----BEGIN SSH SIGNATURE-----", b"-----END SSH SIGNATURE-----"
_LINE = 70
_MAGIC = b"SSHSIG"
_USUAL = ("id_ed25519", "id_ed25519_sk", "id_ecdsa", "id_ecdsa_sk", "id_rsa")
_MAKE_ONE = "ssh-keygen -t ed25519 makes one; use --key FILE for another"


class Signature(Record):
    """What a signature says of itself: the key that made it."""

    kind: str
    key: bytes

    @property
    def fingerprint(self) -> str:
        return "SHA256:" + b64encode(hashlib.sha256(self.key).digest()).decode().rstrip("=")


def key_to_use(named: str | None) -> str:
    """The file that ``ssh-keygen`` is given: a private key, or a public one whose other half an agent holds."""
    if named is not None:
        path = os.path.expanduser(named)
        if not os.path.isfile(path):
            raise UsageError("no such key", where=path, hint=_MAKE_ONE)
        return path
    folder = os.path.expanduser(os.path.join("~", ".ssh"))
    for name in _USUAL:
        for path in (os.path.join(folder, name), os.path.join(folder, f"{name}.pub")):
            if os.path.isfile(path):
                return path
    raise UsageError("no SSH key to sign with was found", where=folder, hint=_MAKE_ONE)


def sign(message: bytes, key: str) -> bytes:
    """``ssh-keygen`` asks for a passphrase at the terminal."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = os.path.join(folder, "manifest.json")
        with open(path, "wb") as target:
            target.write(message)
        done = _keygen("-Y", "sign", "-q", "-f", key, "-n", NAMESPACE, path)
        if done.returncode:
            hint = "ssh-add adds a key to your agent; use --key FILE for another"
            raise UsageError("the passport could not be signed", where=key, answer=_message(done), hint=hint)
        with open(f"{path}.sig", "rb") as source:
            return canonical(source.read())


def canonical(armoured: bytes) -> bytes:
    """The one way to write this signature."""
    lines = armoured.strip().split(b"\n")
    if len(lines) < 3 or (lines[0].strip(), lines[-1].strip()) != (_BEGIN, _END):
        raise PassportError("its signature is not an SSH signature")
    try:
        text = b64encode(b64decode(b"".join(line.strip() for line in lines[1:-1]), validate=True))
    except binascii.Error:
        raise PassportError("its signature is damaged") from None
    inner = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join((_BEGIN, *inner, _END)) + b"\n"


def look(signature: bytes) -> Signature:
    """Which key made it; that it holds is for ``check`` to say."""
    if canonical(signature) != signature:
        raise PassportError("its signature is not in the expected encoding")
    blob = b64decode(b"".join(signature.split(b"\n")[1:-2]))
    version, key, at = blob[6:10], *_text(blob, 10)
    namespace, _ = _text(blob, at)
    if blob[:6] != _MAGIC or version != b"\0\0\0\1" or namespace != NAMESPACE.encode():
        raise PassportError("its signature has another namespace", answer=repr(namespace)[:80])
    return Signature(_text(key, 0)[0].decode("ascii", "replace"), key)


def check(message: bytes, signature: bytes, *, key: str | None = None, signers: str | None = None) -> str:
    """Who signed, by the list of allowed signers or by the file of the one key; empty where no signer was named.

    PassportError where the signature does not hold, or is by another key.
    """
    made_by = look(signature)
    if key is not None and public_key(key) != made_by.key:
        answer = f"it was made by {made_by.kind} {made_by.fingerprint}"
        raise PassportError("the signature is by another key", where=key, answer=answer)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = os.path.join(folder, "signature")
        with open(path, "wb") as target:
            target.write(signature)
        _hold(_keygen("-Y", "check-novalidate", "-n", NAMESPACE, "-s", path, message=message))
        if signers is None:
            return "" if key is None else key
        if not os.path.isfile(signers):
            raise UsageError("no such allowed signers file", where=signers, hint="man ssh-keygen: ALLOWED SIGNERS")
        return _allowed(message, path, signers, made_by)


def public_key(path: str) -> bytes:
    """The key in a file like id_ed25519.pub; the private one is known by the public one beside it."""
    path = os.path.expanduser(path)
    for candidate in (path, f"{path}.pub"):
        try:
            with open(candidate, "rb") as source:
                fields = source.read(65536).split()
        except OSError:
            continue
        try:
            if len(fields) >= 2 and _text(b64decode(fields[1], validate=True), 0)[0] == fields[0]:
                return b64decode(fields[1])
        except (binascii.Error, PassportError):
            continue
    raise UsageError("this is not an SSH public key", where=path, hint="use a file such as ~/.ssh/id_ed25519.pub")


def _allowed(message: bytes, signature: str, signers: str, made_by: Signature) -> str:
    principals = _keygen("-Y", "find-principals", "-f", signers, "-s", signature)
    names = readable(principals.stdout).splitlines() if not principals.returncode else []
    for name in (name.strip() for line in names for name in line.split(",")):
        verify = ("-Y", "verify", "-f", signers, "-I", name, "-n", NAMESPACE, "-s", signature)
        if name and not _keygen(*verify, message=message).returncode:
            return name
    answer = f"it was made by {made_by.kind} {made_by.fingerprint}"
    raise PassportError("the signer is not in this list", where=signers, answer=answer)


def _hold(done: subprocess.CompletedProcess[bytes]) -> None:
    if done.returncode:
        raise PassportError("the signature is invalid: the manifest was changed", answer=_message(done))


def _keygen(*arguments: str, message: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(("ssh-keygen", *arguments), input=message, capture_output=True, check=False)
    except FileNotFoundError:
        hint = "install OpenSSH's client, 8.9 or newer"
        raise UsageError("ssh-keygen is not installed on this machine", hint=hint) from None


def _message(done: subprocess.CompletedProcess[bytes]) -> str:
    return readable(done.stderr + done.stdout).strip()[-500:]


def _text(blob: bytes, at: int) -> tuple[bytes, int]:
    """A string of SSH's wire format, and where the next begins."""
    head = blob[at : at + 4]
    size = struct.unpack(">I", head)[0] if len(head) == 4 else -1
    text = blob[at + 4 : at + 4 + size]
    if size < 0 or len(text) != size:
        raise PassportError("its signature is damaged")
    return text, at + 4 + size
