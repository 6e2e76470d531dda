"""The same in the style of 2017, with graph and session: a run gets TensorFlow 1 for it without a change here."""

import os
import sys

import mnist
import numpy as np
import tensorflow as tf
from azureml.logging import get_azureml_logger

run_logger = get_azureml_logger()
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3000

train_x, train_y = mnist.load("train")
test_x, test_y = mnist.load("t10k")

x = tf.placeholder(tf.float32, [None, 784])
y = tf.placeholder(tf.int64, [None])
w1 = tf.Variable(tf.truncated_normal([784, 256], stddev=0.05, seed=1))
b1 = tf.Variable(tf.zeros([256]))
w2 = tf.Variable(tf.truncated_normal([256, 10], stddev=0.05, seed=2))
b2 = tf.Variable(tf.zeros([10]))
scores = tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2) + b2
loss = tf.losses.sparse_softmax_cross_entropy(y, scores)
train_step = tf.train.AdamOptimizer(0.001).minimize(loss)
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(scores, 1), y), tf.float32))

accuracies = []
random = np.random.RandomState(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for step in range(1, steps + 1):
        batch = random.randint(0, len(train_x), 128)
        session.run(train_step, {x: train_x[batch], y: train_y[batch]})
        if step % 500 == 0 or step == steps:
            accuracies.append(float(session.run(accuracy, {x: test_x, y: test_y})))
            print("step", step, "accuracy", accuracies[-1])
    os.makedirs("outputs", exist_ok=True)
    tf.train.Saver().save(session, os.path.join("outputs", "model"))

run_logger.log("Accuracies", accuracies)
run_logger.log("Accuracy", accuracies[-1])
