# Runs in the Python of the environment, which may be 3.6; the last argument is the number of processes. Records of
# source, bytecode and name in tracebacks are in the file of the first, each as long as the second says, zeros between
# and behind its parts; a line goes to stdout for every file that is done with. Not py_compile: it writes beside and
# renames, and to load it takes longer than a small file.
import importlib.util
import marshal
import os
import struct
import sys


def main(path: "str", width: "int", count: "int") -> "None":
    jobs = os.open(path, os.O_RDONLY)  # all processes read at one shared position
    others = []
    for _ in range(count - 1):
        pid = os.fork()
        if pid == 0:
            work(jobs, width)
            os._exit(0)
        others.append(pid)
    work(jobs, width)
    statuses = [os.waitpid(pid, 0)[1] for pid in others]
    sys.exit(max([0] + [status >> 8 or 1 for status in statuses if status]))


def work(jobs: "int", width: "int") -> "None":
    while True:
        record = os.read(jobs, width)
        if not record:
            return
        source, bytecode, name = record.split(b"\0")[:3]
        with open(source, "rb") as file:
            content = file.read()
        compiled = compiled_code(content, name.decode("utf-8", "surrogateescape"))
        if compiled:
            write(bytecode, importlib.util.MAGIC_NUMBER + proof(source, content) + compiled)
        os.write(1, b"\n")


def write(path: "bytes", data: "bytes") -> "None":
    """All of it, or no file: a short one would break every environment that it is linked into."""
    rest = memoryview(data)
    try:
        with open(path, "wb", buffering=0) as file:
            while rest:
                rest = rest[file.write(rest) :]
    except OSError as error:
        os.unlink(path)
        os._exit(error.errno or 1)


def compiled_code(content: "bytes", name: "str") -> "bytes":
    try:
        return marshal.dumps(compile(content, name, "exec", dont_inherit=True))
    except Exception:
        return b""  # templates and tests of other Pythons: what cannot be compiled cannot be imported


def proof(source: "bytes", content: "bytes") -> "bytes":
    """What says that the bytecode is that of the source.

    A hash that is not checked: published files do not change, and a hard link has the times of the first copy.
    Before 3.7 there is no other way than by time and size.
    """
    if hasattr(importlib.util, "source_hash"):
        return b"\1\0\0\0" + importlib.util.source_hash(content)
    about = os.stat(source)
    return struct.pack("<II", int(about.st_mtime) & 0xFFFFFFFF, about.st_size & 0xFFFFFFFF)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
