"""Why an environment could not be built, as text for people."""

import os
import re

_LONGEST_CAUSE, _LONGEST_LINE, _MOST_LINES = 400, 160, 8  # of a failed build, in the reason of a run


def message(answer: "dict[str, object]", log: "bytes") -> "str":
    """The builder's complaint: what and where, what to do, where the log is, and what the tool said beyond that."""
    what, last = str(answer.get("what")), answer.get("tail")
    parts = ["the environment could not be built: %s" % _shortened(_once(what), _LONGEST_CAUSE)]
    parts += ["%s: %s" % (name, answer[name]) for name in ("where", "hint") if answer.get(name)]
    parts.append("the whole log: %s" % os.fsdecode(log))
    lines = [str(line) for line in last] if isinstance(last, list) else []
    lines = [line for line in lines if not line.startswith("$ ") and not _is_part(line, what)]  # "$": a command line
    return "\n".join(parts + [_shortened(line, _LONGEST_LINE) for line in lines[-_MOST_LINES:]])


def _once(what: "str") -> "str":
    """Without the address that uv repeats after an HTTP status."""
    match = re.search(r" for url \(([^)]*)\)", what)
    is_repeated = match is not None and match.group(1) in what[: match.start()]
    return what.replace(match.group(0), "", 1) if match is not None and is_repeated else what


def _is_part(line: "str", what: "str") -> "bool":
    text = " ".join(line.split())
    return text in what or (text.startswith(("error: ", "cause: ")) and text.partition(": ")[2] in what)


def _shortened(text: "str", longest: "int") -> "str":
    return text if len(text) <= longest else text[:longest] + " ..."
