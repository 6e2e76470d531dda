"""Digits from the real MNIST files, to 99 % and better: python mnist.py FOLDER [EPOCHS]"""

import gzip
import os
import sys
import time

import numpy
import torch
from torch import nn
from torch.nn import functional

import holdfast


def read(folder, name, start):
    with gzip.open(os.path.join(folder, name + "-ubyte.gz")) as source:
        return torch.from_numpy(numpy.frombuffer(source.read(), numpy.uint8)[start:].copy())


folder, epochs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 6
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(1)
images = read(folder, "train-images-idx3", 16).view(-1, 1, 28, 28).float().div(255).to(device)
labels = read(folder, "train-labels-idx1", 8).long().to(device)
unseen = read(folder, "t10k-images-idx3", 16).view(-1, 1, 28, 28).float().div(255).to(device)
truth = read(folder, "t10k-labels-idx1", 8).long().to(device)
model = nn.Sequential(
    *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25)),
    *(nn.Flatten(), nn.Linear(9216, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10)),
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs * (len(images) // 256 + 1))
print("training on", device, torch.cuda.get_device_name(0) if device.type == "cuda" else "", flush=True)
for epoch in range(epochs):
    began = time.perf_counter()
    model.train()
    for batch in torch.randperm(len(images), device=device).split(256):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        right = sum(
            (model(unseen[at : at + 2000]).argmax(1) == truth[at : at + 2000]).sum().item()
            for at in range(0, 10000, 2000)
        )
    seconds = time.perf_counter() - began
    holdfast.log_many({"accuracy": right / 10000, "loss": loss.item(), "epoch_s": seconds}, step=epoch)
    print("epoch %d: %.2f %% of the unseen right, %.2f s" % (epoch, right / 100, seconds), flush=True)
os.makedirs("outputs", exist_ok=True)
torch.save(model.state_dict(), "outputs/mnist.pt")
