"""Signals by the C module below ``signal``.

``signal`` itself imports ``enum`` and gives every signal a name, which takes as long as starting Python once more. The
first process in a container and the GPU probe, which run alone, import ``signal``.
"""

MYPY = False
if MYPY:
    import signal
else:
    try:
        import _signal as signal
    except ImportError:  # another implementation of Python
        import signal

__all__ = ["names", "signal"]


def names() -> "dict[int, str]":
    """Every signal with its name, or with the first of its names."""
    known = sorted(name for name in vars(signal) if name.startswith("SIG") and name[3:4].isalpha())
    return {int(getattr(signal, name)): name for name in reversed(known)}
