"""Learn the digits of MNIST with the Cognitive Toolkit, in the style of 2017: python cntk_mnist.py [sweeps]"""

import ctypes
import os
import sys
import tempfile

import mnist
import numpy as np
from azureml.logging import get_azureml_logger


def with_mpi():
    """CNTK looks for OpenMPI by the names of its version 1.10; a newer one serves as well under these names."""
    try:
        ctypes.CDLL("libmpi.so.12")
        return
    except OSError:
        pass
    folder = tempfile.mkdtemp()
    for name, suffix in (("libmpi", ".so.12"), ("libmpi_cxx", ".so.1")):
        try:
            ctypes.CDLL(name + ".so.40")
        except OSError:
            sys.exit("CNTK needs OpenMPI: apt-get install libopenmpi3 openmpi-bin")
        with open("/proc/self/maps") as maps:
            path = next(line.split()[-1] for line in maps if "/%s.so.40" % name in line)
        os.symlink(path, os.path.join(folder, name + suffix))
    os.environ["LD_LIBRARY_PATH"] = folder + ":" + os.environ.get("LD_LIBRARY_PATH", "")
    os.execv(sys.executable, [sys.executable, *sys.argv])  # the loader reads this variable when a program starts


with_mpi()
import cntk  # noqa: E402 - once its libraries can be found

run_logger = get_azureml_logger()
sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 10
train_x, train_y = mnist.load("train")
test_x, test_y = mnist.load("t10k")
wanted = np.eye(10, dtype=np.float32)

cntk.cntk_py.set_fixed_random_seed(1)
features, labels = cntk.input_variable(784), cntk.input_variable(10)
network = cntk.layers.Sequential(
    [
        cntk.layers.Dense(400, activation=cntk.relu),
        cntk.layers.Dense(200, activation=cntk.relu),
        cntk.layers.Dense(10, activation=None),
    ]
)(features)
loss = cntk.cross_entropy_with_softmax(network, labels)
error = cntk.classification_error(network, labels)
learner = cntk.sgd(network.parameters, cntk.learning_parameter_schedule(0.1))
trainer = cntk.Trainer(network, (loss, error), [learner])

errors = []
random = np.random.RandomState(0)
for sweep in range(sweeps):
    for batch in np.array_split(random.permutation(len(train_x)), len(train_x) // 64):
        trainer.train_minibatch({features: train_x[batch], labels: wanted[train_y[batch]]})
    parts = np.array_split(np.arange(len(test_x)), 10)
    wrong = [trainer.test_minibatch({features: test_x[p], labels: wanted[test_y[p]]}) * len(p) for p in parts]
    errors.append(float(sum(wrong) / len(test_x)))
    print("sweep %d  error %.4f" % (sweep, errors[-1]))
    sys.stdout.flush()

run_logger.log("Errors", errors)
run_logger.log("Error", errors[-1])
os.makedirs("outputs", exist_ok=True)
network.save(os.path.join("outputs", "mnist.model"))
