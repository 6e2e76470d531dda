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
        raise UsageError("not a regular file" if os.path.lexists(path) else "no such file", where=path)
    verdict = check(path, key=key, signers=signers)
    if parsed.text("output") or parsed.text("query"):
        emit(_as_json(verdict), **parsed.form())
        return 0
    manifest = verdict.manifest
    sys.stdout.write(
        f"{show(path)} is unchanged since it was signed: {verdict.files} files, {human_bytes(verdict.bytes)}\n"
    )
    for name, text in (
        ("run", f"{manifest.get('run_id')}: {manifest.get('status')}, exit code {manifest.get('exit_code')}"),
        ("signed", f"{manifest.get('signed_utc')}, by the signer's clock"),
        (
            "by",
            f"{verdict.signer or 'an unverified key'} ({verdict.signature.kind} {verdict.signature.fingerprint})",
        ),
        ("code", f"matches the snapshot of the run, {str(manifest.get('tree'))[:12]}"),
    ):
        sys.stdout.write(f"{name:>8} : {show(text)}\n")
    if not verdict.signer:
        sys.stdout.flush()
        sys.stderr.write("WARNING: the signer was not verified; use --key PUB or --signer FILE\n")
    return 0


def _as_json(verdict: Verdict) -> dict[str, object]:
    fields = {name: value for name, value in verdict.manifest.items() if name not in ("files", "code", "v", "kind")}
    return {
        **fields,
        "files": verdict.files,
        "bytes": verdict.bytes,
        "key": verdict.signature.fingerprint,
        "key_type": verdict.signature.kind,
        "signer": verdict.signer or None,
    }
