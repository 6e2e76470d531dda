# Runs in the Python of the environment, which may be 3.6: JSON arrays [source, bytecode, name in tracebacks] come on
# stdin, each as long as the argument says; a line goes to stdout for every file that is done with.
import json
import os
import py_compile
import sys

# Unchecked: published files do not change, and a hard link has the times of whoever unpacked first.
UNCHECKED = {}
if hasattr(py_compile, "PycInvalidationMode"):
    UNCHECKED["invalidation_mode"] = py_compile.PycInvalidationMode.UNCHECKED_HASH

while True:
    job = os.read(0, int(sys.argv[1]))
    if not job:
        break
    source, bytecode, name = json.loads(job.decode("ascii"))
    try:
        py_compile.compile(source, cfile=bytecode, dfile=name, doraise=True, **UNCHECKED)  # type: ignore[arg-type]
    except (py_compile.PyCompileError, ValueError, RecursionError):
        pass  # templates and tests of other Pythons: what cannot be compiled cannot be imported
    os.write(1, b"\n")
