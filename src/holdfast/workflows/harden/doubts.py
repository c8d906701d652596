"""When hardening is too dear: what is said before it of the encoder, and after it of the price."""

from collections.abc import Iterable, Sequence

from torch.nn.modules.batchnorm import _BatchNorm

from holdfast.core import Encoder
from holdfast.storage.hardening import HardenedMeasure, LookAtHardening, Price

FAR = 0.9
"""Mean cosine between new and old clean representations below which heads of the old ones no longer fit.

Above .98 a kNN probe lost a point or two (digits, CNN-B on CIFAR-10, within the budgets of a first look), at .85
it lost 16 points.
"""

LOST = 0.05
"""Accuracy on clean images that is too much to lose, where the loss is beyond chance."""


def before(encoder: Encoder) -> list[str]:
    """Return what speaks against hardening an encoder as it is: BatchNorm whose statistics were never taken."""
    layers = [layer for layer in encoder.modules() if isinstance(layer, _BatchNorm) and layer.running_mean is not None]
    fresh = [layer for layer in layers if _fresh(layer)]
    if not fresh:
        return []
    return [
        f"{len(fresh)} of {len(layers)} BatchNorm layers never took statistics (mean 0, variance 1): the network is "
        "not trained, and the representations that hardening keeps to mean little; train it first"
    ]


def _fresh(layer: _BatchNorm) -> bool:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return bool((layer.running_mean == 0).all()) and bool((layer.running_var == 1).all())


def of_looks(looks: Sequence[LookAtHardening], kept: int) -> list[str]:
    """Return what speaks against the weights that came out: that nothing chose them, or that images move less far."""
    if all(seen.radius is None for seen in looks):
        return [
            "no change was found that breaks half of the images held out to choose the weights, at any step; the "
            "weights are those of the last one"
        ]
    before, chosen = looks[0].radius, next(seen.radius for seen in looks if seen.step == kept)
    if before is None or chosen is None or chosen >= before:
        return []
    return [
        f"the training made the encoder less robust: half of the images that chose the weights broke at {before:.3g} "
        f"before, and at {chosen:.3g} at best; try --attack-steps 10, or a lower --rate"
    ]


def after(price: Price, measures: Iterable[HardenedMeasure]) -> list[str]:
    """Return what speaks against using a hardened encoder: representations that moved far, accuracy that was lost."""
    lines, cosine = [], price.cosine.value
    advice = "lower --rate, or train longer"
    if cosine is not None and cosine < FAR:
        lines.append(
            f"clean representations moved far: cosine {cosine:.2f} to the old ones, below {FAR:g}; what was built on "
            f"the encoder will not fit; {advice}"
        )
    for row in measures:
        gained = row.difference.value or 0 if row.difference else 0
        if row.measure == "probe_accuracy" and row.verdict == "worse" and gained < -LOST:
            lines.append(f"accuracy on clean images fell by {-100 * gained:.0f} points; {advice}")
    return lines
