"""The declared environment of a script: found, read, named by its content, and checked before any download.

    declared = sources.find(root, config, script)
    spec, findings = read(root, declared)
    spec = gpu.flavoured(settled(spec, interpreter), facts)
    key = spec_key(spec, facts, interpreter)

Nothing here starts a process or opens a connection. ``sources`` finds the file, ``conda``, ``requirements``,
``pyproject`` and ``frozen`` read it (all pip items through ``pip``), ``spec`` is what they say; ``wheels``,
``retired`` and ``gpu`` know what cannot work and what to write instead (``edits`` writes it), ``lock`` is what was
solved for a spec.
"""

from __future__ import annotations
