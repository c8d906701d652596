"""The network of `inputs.py` as whole matrices, for computations by hand."""

from functools import cache

import numpy as np
from torch import Tensor

from benchmarks.same import inputs
from benchmarks.same.by_hand import rvcl as by_hand


@cache
def matrices() -> by_hand.Maps:
    """Return the network of `inputs.py` as matrices."""
    net = inputs.network()
    values = [part.double().numpy() for part in net.parameters()]
    first = by_hand.convolution(*values[:2], side=inputs.SIDE, stride=1, padding=1)
    second = by_hand.convolution(*values[2:4], side=inputs.SIDE, stride=2, padding=0)
    return [first, second, (values[4], values[5]), (values[6], values[7])]


def reps_by_hand(x: np.ndarray) -> np.ndarray:
    """Return representations by these matrices."""
    for number, (weights, bias) in enumerate(matrices()):
        x = (x.clip(min=0) if number else x) @ weights.T + bias
    return x


def pixels(x: Tensor) -> np.ndarray:
    """Return images as rows of pixels."""
    return x.flatten(1).double().numpy()
