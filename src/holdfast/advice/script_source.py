"""Finds how a training script uses a GPU, from its syntax tree; nothing is executed. Pure."""

from __future__ import annotations

import ast
import re

from holdfast.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOVES = re.compile(
    r"\.cuda\(|\.to\(|\bdevice\s*=|device_map|set_default_device|set_default_tensor_type|\bAccelerator\(|\bTrainer\(|"
    r"\bdeepspeed\b|\bfabric\b|\bignite\b|\bfastai\b"
)
_HIDES = re.compile(r"""CUDA_VISIBLE_DEVICES["']\s*\]?\s*[,=]\s*["'](-1|)["']""")
_TO_CPU = re.compile(r"""(\bdevice\s*\(|\bdevice\s*=|\.to\()\s*["']/?(cpu)(:\d+)?["']""")


class Place(Record):
    """A line of a file, and what to write there; ``new`` is empty where the line is to go."""

    where: str
    text: str
    new: str = ""


def hides_gpus(files: Mapping[str, str]) -> Place | None:
    """Where the script itself says that no GPU may be seen."""
    for name, number, line in _lines(files):
        if _HIDES.search(line):
            return Place(f"{name}:{number}", line.strip())
    return None


def stays_on_cpu(files: Mapping[str, str]) -> Place | None:
    """Where the script names the processor, and nowhere a GPU."""
    if any(re.search(r"cuda|/gpu|GPU:", text) for text in files.values()):
        return None
    for name, number, line in _lines(files):
        match = _TO_CPU.search(line)
        if match:
            start, end = match.span(2)
            card = "gpu" if line[start - 1] == "/" else "cuda"  # as tensorflow names it, and torch
            return Place(f"{name}:{number}", line.strip(), f"{line[:start]}{card}{line[end:]}".strip())
    return None


def unmoved_model(files: Mapping[str, str]) -> Place | None:
    """The line that makes a model of torch, where no source moves anything to a device. Not found is not proven."""
    torch = {name: text for name, text in files.items() if re.search(r"^\s*(import|from) torch\b", text, re.MULTILINE)}
    if not torch or any(_MOVES.search(text) for text in files.values()):
        return None
    modules = {name for text in files.values() for name in _modules(_tree(text))}
    for name, text in torch.items():
        for node in ast.walk(_tree(text)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _makes_model(node.value, modules):
                line = text.splitlines()[node.lineno - 1].strip()
                whole = node.lineno == node.end_lineno
                return Place(f"{name}:{node.lineno}", line, f'{line}.to("cuda")' if whole else "")
    first = next(iter(torch))
    return Place(first, "")


def slow_loader(files: Mapping[str, str], workers: int) -> Place | None:
    """A DataLoader that reads its data in the training loop itself."""
    for name, text in files.items():
        for node in ast.walk(_tree(text)):
            if isinstance(node, ast.Call) and _called(node.func) == "DataLoader" and _is_alone(node):
                line = text.splitlines()[node.lineno - 1]
                return Place(f"{name}:{node.lineno}", line.strip(), _with_workers(line, text, node, workers))
    return None


def _lines(files: Mapping[str, str]) -> Iterator[tuple[str, int, str]]:
    for name, text in files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield name, number, line


def _tree(text: str) -> ast.AST:
    """Empty for what this Python cannot read, such as Python 2."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of strings in the script
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _modules(tree: ast.AST) -> Iterator[str]:
    """Classes that are models."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(
            _called(base) in ("Module", "LightningModule") for base in node.bases
        ):
            yield node.name


def _makes_model(call: ast.Call, modules: set[str]) -> bool:
    name = _called(call.func)
    if name in modules or name == "Sequential":
        return True
    return isinstance(call.func, ast.Attribute) and _called(call.func.value) == "models"


def _called(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_alone(call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg is None:
            return False  # ** may hold anything
        if keyword.arg == "num_workers":
            return isinstance(keyword.value, ast.Constant) and keyword.value.value == 0
    return len(call.args) < 6  # num_workers may be given by place


def _with_workers(line: str, text: str, call: ast.Call, workers: int) -> str:
    added = f"num_workers={workers}"
    old = next((keyword for keyword in call.keywords if keyword.arg == "num_workers"), None)
    if call.lineno != call.end_lineno or not line.isascii():
        return f"{added},"
    source = ast.get_source_segment(text, call) or ""
    new = re.sub(r"num_workers\s*=\s*0", added, source) if old else f"{source[:-1].rstrip().rstrip(',')}, {added})"
    return line.replace(source, new).strip()
