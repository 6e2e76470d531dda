"""``python controlling_terminal.py COMMAND...``: run a command whose controlling terminal is its standard input.

A program with threads cannot do this between fork and exec. Signals that the server ignores, as under ``nohup`` or in
the background of a script, would be ignored by the shell too: it could not be hung up, and Ctrl-C would end nothing.
"""

import os
import signal
import sys

if sys.platform != "win32" and __name__ == "__main__":
    import fcntl
    import termios

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
