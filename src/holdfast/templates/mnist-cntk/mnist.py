"""Read the four files of MNIST that get_data.py has fetched."""

import os
import sys

import numpy as np

FOLDER = os.environ.get("HOLDFAST_DATA_MNIST") or os.path.join("data", "mnist")


def load(part, limit=None):
    """Images (n x 784, from 0 to 1) and labels of ``train`` or ``t10k``."""
    images = _read("%s-images-idx3-ubyte" % part, 16).reshape(-1, 784)[:limit]
    labels = _read("%s-labels-idx1-ubyte" % part, 8)[:limit]
    return images.astype(np.float32) / 255, labels.astype(np.int64)


def _read(name, head):
    path = os.path.join(FOLDER, name)
    if not os.path.exists(path):
        sys.exit("there is no %s: fetch the data with python get_data.py, then submit again" % path)
    return np.fromfile(path, dtype=np.uint8)[head:]
