"""``holdfast passport`` and ``holdfast passport verify``"""

from __future__ import annotations

import os
import sys

from holdfast.cli import pick
from holdfast.errors import UsageError
from holdfast.present.output import emit
from holdfast.present.terminal import human_bytes, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parse import Parsed
    from holdfast.passport.verify import Verdict


def make(parsed: Parsed) -> int:
    from holdfast.passport import signing
    from holdfast.passport.make import make as write

    key = signing.key_to_use(parsed.text("key"))
    home, run = pick.run(parsed)
    path = os.path.abspath(parsed.text("to") or f"{run.request.get('run_id')}.passport.zip")
    manifest = write(home, run, key, path)
    sys.stdout.write(f"{show(path)}\n")
    files = manifest["files"]
    count = len(files) if isinstance(files, list) else 0
    sys.stderr.write(f"{count} files, {human_bytes(os.path.getsize(path))}, signed with {show(key)}\n")
    return 0


def verify(parsed: Parsed) -> int:
    from holdfast.passport.verify import verify as check

    path = parsed.text("file") or ""
    key, signers = parsed.text("key"), parsed.text("signer")
    if key is not None and signers is not None:
        raise UsageError("use either --key or --signer, not both", hint="name one of them")
    if not os.path.isfile(path):
        raise UsageError("no such file", where=path)
    found = check(path, key=key, signers=signers)
    if parsed.text("output") or parsed.text("query"):
        emit(_as_json(found), fmt=parsed.text("output"), query=parsed.text("query"))
        return 0
    said = found.manifest
    sys.stdout.write(
        f"{show(path)} is unchanged since it was signed: {found.files} files, {human_bytes(found.bytes)}\n"
    )
    for name, words in (
        ("run", f"{said.get('run_id')}: {said.get('status')}, exit code {said.get('exit_code')}"),
        ("signed", f"{said.get('signed_utc')}, by the signer's clock"),
        (
            "by",
            f"{found.signer or 'an unverified key'} ({found.signature.kind} {found.signature.fingerprint})",
        ),
        ("code", f"matches the snapshot of the run, {str(said.get('tree'))[:12]}"),
    ):
        sys.stdout.write(f"{name:>8} : {show(words)}\n")
    if not found.signer:
        sys.stdout.flush()
        sys.stderr.write("WARNING: the signer was not verified; use --key PUB or --signer FILE\n")
    return 0


def _as_json(found: Verdict) -> dict[str, object]:
    told = {name: value for name, value in found.manifest.items() if name not in ("files", "code", "v", "kind")}
    return {
        **told,
        "files": found.files,
        "bytes": found.bytes,
        "key": found.signature.fingerprint,
        "key_type": found.signature.kind,
        "signer": found.signer or None,
    }
