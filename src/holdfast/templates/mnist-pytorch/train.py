"""Learn the digits of MNIST with a small convolutional network: python train.py [--epochs 4]"""

import argparse
import os
import time

import mnist
import torch
from torch import nn

import holdfast

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.002)
parser.add_argument("--limit", type=int, help="learn from so many images only")
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

torch.manual_seed(args.seed)
device = "cuda" if torch.cuda.is_available() else "cpu"
train_x, train_y, test_x, test_y = (
    torch.from_numpy(values).to(device)
    for part, limit in (("train", args.limit), ("t10k", None))
    for values in mnist.load(part, limit)
)
model = nn.Sequential(
    nn.Unflatten(1, (1, 28, 28)),
    nn.Conv2d(1, 16, 5, stride=2),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Dropout(0.2),
    nn.Linear(800, 128),
    nn.ReLU(),
    nn.Linear(128, 10),
).to(device)
batches = (len(train_x) + 127) // 128
optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr * 3, total_steps=args.epochs * batches)
print(f"{len(train_x)} images to learn from, {len(test_x)} to test with, on {device}", flush=True)

accuracies = []
started = time.perf_counter()
for epoch in range(args.epochs):
    model.train()
    for batch in torch.randperm(len(train_x), device=device).split(128):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(train_x[batch]), train_y[batch])
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    with torch.no_grad():
        guesses = torch.cat([model(part).argmax(1) for part in test_x.split(1000)])
    accuracy = (guesses == test_y).float().mean().item()
    accuracies.append(accuracy)
    holdfast.log("loss", loss.item(), step=epoch)
    holdfast.log("accuracy", accuracy, step=epoch)
    print(f"epoch {epoch}  loss {loss.item():.4f}  accuracy {accuracy:.4f}", flush=True)

holdfast.log("Accuracy", accuracies[-1])
holdfast.log("seconds", round(time.perf_counter() - started, 3))
os.makedirs("outputs", exist_ok=True)
torch.save(model.state_dict(), "outputs/model.pt")
