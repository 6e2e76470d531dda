"""Fits a line to noisy points by gradient descent."""

import argparse
import os

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--epochs", type=int, default=20)
options = parser.parse_args()

random = np.random.default_rng(0)
x = random.uniform(-1, 1, 200)
y = 3 * x - 1 + random.normal(0, 0.1, 200)

slope, offset = 0.0, 0.0
for epoch in range(1, options.epochs + 1):
    error = slope * x + offset - y
    slope -= options.lr * 2 * (error * x).mean()
    offset -= options.lr * 2 * error.mean()
    print(f"epoch={epoch} loss={(error**2).mean():.5f}")

os.makedirs("checkpoints", exist_ok=True)
np.savez("checkpoints/last.npz", slope=slope, offset=offset)
