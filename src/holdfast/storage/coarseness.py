"""A comparison of the attack of a training with a finer one, as records and checkpoints have it."""

from holdfast.storage.entry import Count, Entry, Number


class Comparison(Entry, frozen=True, kw_only=True):
    """How much more a finer attack found at a step than that of the training.

    Attributes:
        step: of the training.
        ratio: times as much, see `Adversary.measure_coarseness`; None: the training's own found nothing.
        coarse: whether the attack was too coarse.
        mended: whether it was made finer then.
    """

    step: Count
    ratio: Number | None
    coarse: bool
    mended: bool
