"""Tell three kinds of iris apart by logistic regression: python iris_sklearn.py [regularisation rate]"""

import os
import pickle
import sys

import numpy as np
from azureml.logging import get_azureml_logger
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

try:
    from matplotlib.figure import Figure
except ImportError:  # then there is no picture
    Figure = None

NOISE = 40  # columns of pure chance, so that the regularisation has something to do
MODEL = os.path.join("outputs", "model.pkl")

run_logger = get_azureml_logger()
rate = float(sys.argv[1]) if len(sys.argv) > 1 else 0.01
if rate <= 0:
    sys.exit("the regularisation rate must be greater than 0")
print("regularisation rate", rate)
run_logger.log("Regularization Rate", rate)

columns = np.genfromtxt("iris.csv", delimiter=",", skip_header=1, dtype=str)
flowers, species = columns[:, :4].astype(float), columns[:, 4]
noise = np.random.RandomState(0).normal(size=(len(flowers), NOISE))
train_x, test_x, train_y, test_y = train_test_split(
    np.hstack([flowers, noise]), species, test_size=0.35, random_state=0, stratify=species
)

model = LogisticRegression(C=1 / rate, max_iter=10000).fit(train_x, train_y)
accuracy = model.score(test_x, test_y)
print("accuracy", accuracy)
run_logger.log("Accuracy", accuracy)

os.makedirs("outputs", exist_ok=True)
with open(MODEL, "wb") as target:
    pickle.dump(model, target)
with open(MODEL, "rb") as source:
    kept = pickle.load(source)
print("the model in", MODEL, "calls the first flower", kept.predict(np.hstack([flowers, noise])[:1])[0])

counts = confusion_matrix(test_y, model.predict(test_x), labels=model.classes_)
print("rows: what it is, columns: what it was taken for\n%s" % counts)
if Figure:
    figure = Figure()
    axes = figure.subplots()
    axes.imshow(counts, cmap="Blues")
    axes.set_xticks(range(len(model.classes_)))
    axes.set_xticklabels(model.classes_)
    axes.set_yticks(range(len(model.classes_)))
    axes.set_yticklabels(model.classes_)
    axes.set_xlabel("taken for")
    axes.set_ylabel("is")
    figure.savefig(os.path.join("outputs", "confusion.png"), bbox_inches="tight")
