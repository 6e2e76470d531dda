"""``python controlling_terminal.py COMMAND...``: run a command whose controlling terminal is its standard input.

A program with threads cannot do this between fork and exec.
"""

import os
import sys

if sys.platform != "win32" and __name__ == "__main__":
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
