"""Learn the digits of MNIST with Keras: python train.py [--epochs 4]"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras
import mnist
import tensorflow as tf

import holdfast

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--limit", type=int, help="learn from so many images only")
args = parser.parse_args()

keras.utils.set_random_seed(0)
train_x, train_y = mnist.load("train", args.limit)
test_x, test_y = mnist.load("t10k")
print(
    f"{len(train_x)} images to learn from, {len(test_x)} to test with, on", tf.config.list_physical_devices()[-1].name
)

model = keras.Sequential(
    [
        keras.Input((784,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(10),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(args.lr), loss, metrics=["accuracy"])
history = model.fit(train_x, train_y, 128, args.epochs, validation_data=(test_x, test_y), verbose=2)
for name, values in history.history.items():  # a list has a value for each epoch
    holdfast.log(name, values)
holdfast.log("Accuracy", history.history["val_accuracy"][-1])
os.makedirs("outputs", exist_ok=True)
model.save("outputs/model.keras")
