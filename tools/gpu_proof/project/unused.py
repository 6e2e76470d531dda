"""A script that could use a GPU and does not."""

import time

import torch

numbers = torch.randn(512, 512)
began = time.time()
while time.time() - began < 8:
    numbers = torch.tanh(numbers @ numbers)
print("done on the processor", flush=True)
