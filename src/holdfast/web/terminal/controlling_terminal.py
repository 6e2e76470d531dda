"""``python controlling_terminal.py COMMAND...``: run a command whose controlling terminal is its standard input.

A program with threads cannot do this between fork and exec.
"""

import fcntl
import os
import sys
import termios

if __name__ == "__main__":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
