"""The images of an audit: those that are tested, and those that probes learn from."""

from dataclasses import dataclass

from holdfast.auditing.plan import Plan
from holdfast.core import HoldfastError, ImageSource
from holdfast.sources.data import ImageSet, Selection, open_images


@dataclass(frozen=True)
class AuditImages:
    """The images of an audit.

    Attributes:
        tested: the population.
        train: what probes learn from; None: the images that are not attacked.
        left_out: how many training images were left out because they are tested.
    """

    tested: ImageSet
    train: ImageSet | None = None
    left_out: int = 0

    @property
    def selections(self) -> tuple[Selection, Selection | None]:
        """What reading all of them has found; for `open_selected` in other processes."""
        return self.tested.selection, None if self.train is None else self.train.selection


def open_all(plan: Plan, source: ImageSource | None = None, training: ImageSource | None = None) -> AuditImages:
    """Open the images of a plan; training images without those that are tested.

    The tested images take over the numbers of their classes, by name.

    Args:
        plan: what to open.
        source: tested images that are open already.
        training: training images that are open already.

    Raises:
        HoldfastError: images that cannot be used, or training images that are all tested.
    """
    tested = _tested(plan, source)
    if plan.train is None:
        return AuditImages(tested)
    train = _train(plan, plan.train, training)
    available = len(train)
    if (left_out := train.leave_out(tested)) and len(train) < 2:
        raise HoldfastError(
            f"train {plan.train}: expected other images than those of the audit, got {left_out} of {available} that "
            "are among them; give a training split, or leave it out: probes then learn from the images that are not "
            "attacked"
        )
    tested.number_classes_as(train)
    return AuditImages(tested, train, left_out)


def open_selected(
    plan: Plan,
    source: ImageSource | None,
    selections: tuple[Selection, Selection | None],
    training: ImageSource | None = None,
) -> AuditImages:
    """Open the images of a plan of which another process has read all, without doing so again.

    Raises:
        HoldfastError: images that came or went meanwhile.
    """
    tested_selection, train_selection = selections
    tested = _tested(plan, source)
    tested.recall(tested_selection)
    if plan.train is None or train_selection is None:
        return AuditImages(tested)
    train = _train(plan, plan.train, training)
    train.recall(train_selection)
    tested.number_classes_as(train)
    return AuditImages(tested, train)


def _tested(plan: Plan, source: ImageSource | None) -> ImageSet:
    if source is None:
        return open_images(plan.data, size=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt)
    return ImageSet(source, size=plan.images, seed=plan.seed, skip_corrupt=plan.skip_corrupt)


def _train(plan: Plan, spec: str, source: ImageSource | None) -> ImageSet:
    return open_images(
        spec if source is None else source, size=plan.train_images, seed=plan.seed, skip_corrupt=plan.skip_corrupt
    )
