"""Logs with the module that scripts for Azure ML Workbench import."""

import os
import sys

from azureml.logging import get_azureml_logger

rate = float(sys.argv[1])
logger = get_azureml_logger()
logger.log("Regularization Rate", rate)
logger.log("Accuracy", [1 - rate / step for step in (1, 2, 4)])
with open(os.path.join("outputs", "model.txt"), "w") as model:
    model.write(str(rate))
