"""Python's side of a package that is written in C."""

from ctypes import CDLL
from pathlib import Path

twice = CDLL(str(Path(__file__).with_name("libtinyfast.so"))).twice
