"""Has the encoder learned anything, or are its weights still as they were drawn?"""

from dataclasses import dataclass

import numpy as np
import scipy
import torch
from torch import Tensor

from holdfast.core import Check, Examination, Observation, Subject, Verdict
from holdfast.numerics.geometry.invariance import EVERY

MOST = 20_000
"""Weights of a layer that are looked at."""


@dataclass(frozen=True)
class Trained(Check):
    """Warns where the weights of the layers are distributed as initialisers draw them: uniformly, or normally.

    A Kolmogorov-Smirnov test of each weight matrix or kernel against both, width and deviation fitted. Learning leaves
    heavier tails, which a few thousand weights show.

    Attributes:
        fewest: weights of a layer that is looked at.
        level: p from which a layer counts as drawn.
        share: of the layers looked at that must look drawn for a warning.
    """

    doubt = "looks untrained"
    invariant = EVERY

    fewest: int = 500
    level: float = 0.01
    share: float = 0.9

    place = 16

    @classmethod
    def checks_for(cls, audit: Examination) -> tuple[Check, ...]:
        """Every audit, also one that reads no images."""
        return (cls(),)

    def observations(self) -> tuple[Observation, ...]:
        """None: it reads weights only."""
        return ()

    def judge(self, subject: Subject) -> Verdict:
        """Test the weights of every layer."""
        # Matrices and kernels: biases and the like begin as constants, which tells nothing
        layers = [p for p in subject.encoder.module.parameters() if p.ndim > 1 and p.numel() >= self.fewest]
        if not layers:
            meaning = "No layer could be examined; make sure that the weights are those of a trained network."
            return Verdict("pass", f"no layer of {self.fewest} weights", meaning)
        drawn = sum(_looks_drawn(layer, self.level) for layer in layers)
        finding = f"the weights of {drawn} of {len(layers)} layers are distributed as at initialisation"
        details = {"drawn": drawn / len(layers)}
        if drawn >= self.share * len(layers):
            meaning = (
                "The network looks untrained: distances between its representations mean little, however robust they "
                "are. Load its weights."
            )
            return Verdict("warn", finding, meaning, details, called="Looks untrained")
        return Verdict("pass", finding, "The weights differ from their initial distribution.", details)


def _looks_drawn(layer: Tensor, level: float) -> bool:
    """Return whether weights cannot be told from uniform or normal numbers."""
    values = layer.detach().flatten().to("cpu", torch.float64).numpy()
    # Every k-th weight, the same ones each time
    values = values[:: -(-len(values) // MOST)]
    # Both distributions are fitted to the weights, which makes p larger: only what is clearly
    # not drawn is told from them
    spread, widest = float(values.std()), float(np.abs(values).max())
    if spread == 0 or not np.isfinite(widest):
        return False
    # Either initialiser may have been used; of so many weights the limit law says the same as the exact one, at once
    laws = scipy.stats.uniform(-widest, 2 * widest), scipy.stats.norm(float(values.mean()), spread)
    return any(scipy.stats.kstest(values, law.cdf, method="asymp").pvalue > level for law in laws)
