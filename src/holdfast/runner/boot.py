# The first words spoken to a target: sent whole as `python -c`, with what is asked as the word behind it: over SSH a
# command is heard a trip before what follows it on stdin. It finds or installs the runner of the asked content hash,
# says so behind the nonce, and hands over. Names here are one letter short
# of the rest of the house because this text travels with every connection.
import binascii
import errno
import json
import os
import sys

asked = json.loads(binascii.a2b_base64(sys.argv[2]).decode("utf-8"))
home = os.path.expanduser((asked["home"] or os.path.join("~", ".holdfast")).encode("utf-8", "surrogateescape"))
place = os.path.join(home, b"runner", asked["runner"].encode("ascii"))


def say(word: "str") -> "None":
    os.write(1, ("\n%s %s\n" % (asked["nonce"], word)).encode("ascii"))  # what a shell printed may lack a line end


def receive(size: "int") -> "bytes":
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or sys.exit("holdfast: the runner was cut off on its way")
    return data


def install(data: "bytes") -> "None":
    import hashlib
    import io
    import shutil
    import zipfile

    bundle = zipfile.ZipFile(io.BytesIO(data))
    digest = hashlib.sha256()
    for name in sorted(bundle.namelist()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(bundle.read(name)).digest())
    if digest.hexdigest() != asked["runner"]:
        sys.exit("holdfast: the runner arrived damaged")
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    beside = place + b".%d.tmp" % os.getpid()
    bundle.extractall(os.fsdecode(beside))
    os.sync()  # once per version: half a runner after a power cut would be there for good
    try:
        os.rename(beside, place)
    except OSError:
        shutil.rmtree(beside)  # somebody else was first


umask = os.umask(0o077)
luggage = receive(asked["size"])
if not os.path.exists(place):
    if not luggage:
        say("need")
        sys.exit(0)
    try:
        install(luggage)
    except OSError as error:
        say("refused %s %s" % (errno.errorcode.get(error.errno or 0, "?"), binascii.hexlify(home).decode("ascii")))
        sys.exit(0)
sys.path.insert(0, os.fsdecode(place))
from runner import serve  # type: ignore  # noqa: E402

say("ready")
serve.main(home, asked["runner"], umask)
