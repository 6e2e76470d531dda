"""A fixed piece of work on the GPU, and how long it took: python steady.py FILE TIMES"""

import sys
import time

import torch

numbers = torch.randn(4096, 4096, device="cuda")
result = torch.empty_like(numbers)


def work(times):
    for _ in range(times):
        torch.mm(numbers, numbers, out=result)
    torch.cuda.synchronize()


work(500)
began = time.perf_counter()
# Small steps with a word from the processor after each, as a training loop has them.
for _ in range(int(sys.argv[2])):
    work(10)
with open(sys.argv[1], "a") as target:
    target.write("%.6f\n" % (time.perf_counter() - began))
