# The first program on a target: sent as the text of `python -c` with the request as its argument. Over SSH a command
# arrives one round trip before its stdin. It finds or installs the runner with the requested content hash, answers
# after the nonce, and starts it. Names are short here because this text is sent with every connection.
import _frozen_importlib_external as external
import binascii
import errno
import marshal
import os
import sys

asked, runner, nonce, size = binascii.a2b_base64(sys.argv[2]).split(b"\0")
home = os.path.expanduser(asked or os.path.join(b"~", b".holdfast"))
place = os.path.join(home, b"runner", runner)
top = os.fsdecode(place)


def say(word: "str") -> "None":
    os.write(1, b"\n%s %s\n" % (nonce, word.encode("ascii")))  # what a shell printed may lack a line end


def receive(size: "int") -> "bytes":
    data = b""
    while len(data) < size:
        data += os.read(0, size - len(data)) or sys.exit("holdfast: the runner arrived incomplete")
    return data


def keep(path: "str", data: "bytes") -> "None":
    """A file with a checksum in front; one that cannot be written is made again next time."""
    beside = "%s.%d.tmp" % (path, os.getpid())
    try:
        with open(beside, "wb") as target:
            target.write(b"%08x" % binascii.crc32(data) + data)
        os.replace(beside, path)
    except OSError:
        pass


def kept(path: "str") -> "bytes":
    """What such a file holds; nothing if it is not there or damaged."""
    try:
        with open(path, "rb") as source:
            data = source.read()
    except OSError:
        return b""
    return data[8:] if data[:8] == b"%08x" % binascii.crc32(data[8:]) else b""


def modules(folder: "str", prefix: "str" = "") -> "list[tuple[str, int, int, int]]":
    """Name, size, time of change and inode of each: writing to a file changes one of them."""
    files = []
    for entry in os.scandir(folder):
        if entry.name.endswith(".py"):
            s = entry.stat()
            files.append((prefix + entry.name, s.st_size, s.st_ctime_ns, s.st_ino))
        elif entry.name != "code" and entry.is_dir():
            files += modules(entry.path, prefix + entry.name + "/")
    return files


def is_whole() -> "bool":
    """All files are read again only if one of them was written to since the last time."""
    if not os.path.isdir(place):
        return False
    files, note = modules(top), os.path.join(top, "code", "state")
    now = repr(files).encode("ascii", "replace")
    if kept(note) == now:
        return True
    import hashlib

    digest = hashlib.sha256()
    try:
        for name in sorted(module[0] for module in files):
            with open(os.path.join(top, name), "rb") as source:
                digest.update(name.encode() + b"\0" + hashlib.sha256(source.read()).digest())
    except OSError:
        return False
    if digest.hexdigest() != runner.decode("ascii"):
        return False
    keep(note, now)
    return True


def install(data: "bytes") -> "None":
    import fcntl
    import hashlib
    import io
    import shutil
    import zipfile

    bundle = zipfile.ZipFile(io.BytesIO(data))
    digest = hashlib.sha256()
    for name in sorted(bundle.namelist()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(bundle.read(name)).digest())
    if digest.hexdigest() != runner.decode("ascii"):
        sys.exit("holdfast: the runner arrived damaged")
    os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
    beside = place + b".%d.tmp" % os.getpid()
    bundle.extractall(os.fsdecode(beside))
    os.mkdir(os.path.join(beside, b"code"))
    for folder in {os.path.dirname(name) for name in bundle.namelist()}:
        # Bytecode that a full disk cuts short breaks every later import: no Python can write any into a file.
        open(os.path.join(os.fsdecode(beside), folder, "__pycache__"), "wb").close()
    os.sync()  # once per version: half a runner after a power cut would be there for good
    lock = os.open(os.path.dirname(place), os.O_RDONLY)  # many clients may install it at the same moment
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        if not is_whole():
            if os.path.isdir(place):
                os.rename(place, beside + b".damaged")
            os.rename(beside, place)
    finally:
        os.close(lock)
    shutil.rmtree(beside, ignore_errors=True)
    shutil.rmtree(beside + b".damaged", ignore_errors=True)


class Loader(external.SourceFileLoader):
    """Bytecode with a checksum, beside sources that never change: their folder is named by their content."""

    def get_code(self, name):  # type: ignore
        path = os.path.join(top, "code", "%s-%s" % (sys.implementation.cache_tag, name))
        data = kept(path)
        if data[:16] == magic:
            return marshal.loads(data[16:])
        code = self.source_to_code(self.get_data(self.path), self.path)
        keep(path, magic + marshal.dumps(code))
        return code


def finder(path: "str") -> "external.FileFinder":
    if path != top and not path.startswith(top + os.sep):
        raise ImportError
    return external.FileFinder(path, (Loader, [".py"]))


magic = external.MAGIC_NUMBER.ljust(16, b"\0")
umask = os.umask(0o077)
archive = receive(int(size))
if not is_whole():
    if not archive:
        say("need")
        sys.exit(0)
    try:
        install(archive)
    except OSError as error:
        say("refused %s %s" % (errno.errorcode.get(error.errno or 0, "?"), binascii.hexlify(home).decode("ascii")))
        sys.exit(0)
sys.path_hooks.insert(0, finder)
sys.path.insert(0, top)
from runner import server  # type: ignore  # noqa: E402

say("ready")
server.main(home, runner.decode("ascii"), umask)
