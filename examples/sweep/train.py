"""Finds the minimum of a parabola by gradient descent."""

import argparse

import holdfast

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
options = parser.parse_args()

x = 4.0
for step in range(20):
    holdfast.log("loss", (x - 1) ** 2, step=step)
    x -= options.lr * 2 * (x - 1)
