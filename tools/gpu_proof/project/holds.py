"""A script that takes memory of its GPU and computes nothing."""

import time

import torch

memory = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
print("2 GB are taken", flush=True)
time.sleep(14)
