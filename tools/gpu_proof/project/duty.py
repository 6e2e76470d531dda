"""A GPU that is busy for a known share of the time, by CUDA's own events: python duty.py SHARE PERIOD_S SECONDS"""

import sys
import time

import torch

import holdfast

share, period, seconds = (float(word) for word in sys.argv[1:4])
numbers = torch.randn(4096, 4096, device="cuda")
result = torch.empty_like(numbers)
first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def work(times):
    first.record()
    for _ in range(times):
        torch.mm(numbers, numbers, out=result)
    last.record()
    last.synchronize()
    return first.elapsed_time(last) / 1000


work(1)  # loads the kernel: the GPU is idle during most of it
busy = work(20)
times = max(1, round(share * period / (busy / 20)))
began = time.perf_counter()
while time.perf_counter() - began < seconds:
    start = time.perf_counter()
    length = work(times)
    busy += length
    if share < 1:
        time.sleep(max(0.0, length / share - (time.perf_counter() - start)))
free, total = torch.cuda.mem_get_info()
holdfast.log_many({"busy_s": busy, "memory": total - free})
print("busy %.3f s by CUDA's events, %.0f MB in use" % (busy, (total - free) / 1e6))
