"""Learn to read handwritten digits: 1,797 scanned images of 8 x 8 pixels that come with scikit-learn."""

import argparse
import pickle
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss
from sklearn.model_selection import train_test_split

import holdfast

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

digits = load_digits()
pixels = digits.data / 16.0
train_x, test_x, train_y, test_y = train_test_split(pixels, digits.target, test_size=0.25, random_state=args.seed)
model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=args.lr, random_state=args.seed)
print(f"{len(train_x)} images to learn from, {len(test_x)} to test with, learning rate {args.lr}")

shuffle = np.random.default_rng(args.seed)
started = time.perf_counter()
for epoch in range(args.epochs):
    order = shuffle.permutation(len(train_x))
    for batch in np.array_split(order, 20):
        model.partial_fit(train_x[batch], train_y[batch], classes=digits.target_names)
    loss = log_loss(test_y, np.clip(model.predict_proba(test_x), 1e-9, 1), labels=digits.target_names)
    accuracy = accuracy_score(test_y, model.predict(test_x))
    holdfast.log("loss", loss, step=epoch)
    holdfast.log("accuracy", accuracy, step=epoch)
    print(f"epoch {epoch:2d}  loss {loss:.4f}  accuracy {accuracy:.4f}")

holdfast.log("Accuracy", accuracy)
holdfast.log("seconds", round(time.perf_counter() - started, 3))

with open("outputs/model.pkl", "wb") as target:
    pickle.dump(model, target)
np.savetxt("outputs/confusion.csv", confusion_matrix(test_y, model.predict(test_x)), fmt="%d", delimiter=",")
print(f"accuracy {accuracy:.4f}; the model is in outputs/model.pkl")
