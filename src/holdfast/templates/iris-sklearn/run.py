"""Sweep the regularisation rate: one run after the other, each with half the rate of the one before."""

import os

rate = 10.0
while rate > 0.005:
    os.system("az ml experiment submit -c local ./iris_sklearn.py {}".format(rate))
    rate /= 2
