"""A script that has a GPU and never touches it."""

import time

print("hours on the processor begin", flush=True)
time.sleep(600)
