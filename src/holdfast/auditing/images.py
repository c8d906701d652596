"""The images of an audit: those that are tested, and those that probes learn from."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor, nn

from holdfast.auditing.plan import Plan
from holdfast.core import Encoder, Geometry, Images, ImageSource, Positions, Rng, Threat
from holdfast.core.ids import Ids
from holdfast.numerics.statistics.copies import firsts
from holdfast.runtime.errors import NotEnough
from holdfast.runtime.waiting import move_to
from holdfast.sources.data import ImageSet, Selection, open_images


@dataclass(frozen=True)
class AuditImages:
    """The images of an audit.

    Attributes:
        tested: the population.
        train: what probes learn from; None: the images that are not attacked.
        left_out: how many training images were left out because they are tested.
        notes: what else was left out, a line each.
    """

    tested: ImageSet
    train: ImageSet | None = None
    left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def selections(self) -> tuple[Selection, Selection | None]:
        """What reading all of them has found; for `open_selected` in other processes."""
        return self.tested.selection, None if self.train is None else self.train.selection

    def render(self, geometry: Geometry | None) -> "AuditImages":
        """Return the same images for an encoder; pictures of mixed shapes as is usual where it names no geometry."""
        geometry = geometry or self.tested.common_geometry
        train = None if self.train is None else self.train.with_geometry(geometry)
        return replace(self, tested=self.tested.with_geometry(geometry), train=train)

    def first(self, size: int) -> "AuditImages":
        """Return the first of both, see `ImageSet.unread`."""
        return replace(
            self, tested=self.tested.unread(size), train=None if self.train is None else self.train.unread(size)
        )


def first_of_pictures(images: ImageSet) -> Int[Tensor, "images"] | None:
    """Return the place of the first image that shows the picture of each; None where none is a copy of another."""
    alike = [] if images.skips_duplicates else [(image, like) for image, like, _ in images.duplicates]
    return firsts(images.ids, alike)


def open_unread(plan: Plan, source: ImageSource | None = None, training: ImageSource | None = None) -> AuditImages:
    """Open the images of a plan, of which none is read yet; training images include those that are tested."""
    options = {"seed": plan.seed, "skip_corrupt": plan.skip_corrupt}
    tested = open_images(
        plan.data if source is None else source,
        images=plan.images,
        skip_duplicates=plan.skip_duplicates,
        queries=plan.attacked,
        **options,
    )
    if plan.train is None:
        return AuditImages(tested)
    train = open_images(plan.train if training is None else training, images=plan.train_images, **options)
    return AuditImages(tested, train)


def open_all(plan: Plan, source: ImageSource | None = None, training: ImageSource | None = None) -> AuditImages:
    """Open the images of a plan, see `open_unread`; training images without those that are tested.

    The tested images take over the numbers of their classes, by name, unless these may be other classes. Where a
    measure reads labels, images without are left out.
    """
    images = open_unread(plan, source, training)
    # What is left out goes before anything is counted or drawn
    notes = (_without_unlabelled(each, plan) for each in filter(None, (images.tested, images.train)))
    images = replace(images, notes=tuple(filter(None, notes)))
    if plan.skip_duplicates:
        images.tested.leave_out_copies()
        if len(images.tested) < 2:
            raise NotEnough(
                f"{images.tested}: expected at least 2 images that show different pictures, got "
                f"{len(images.tested)}; {len(images.tested.duplicates)} look like others and were left out"
            )
    if (train := images.train) is None:
        return images
    # A probe that has learned from a tested image knows its answer
    available = len(train)
    if (left_out := train.leave_out(images.tested)) and len(train) < 2:
        raise NotEnough(
            f"train {plan.train}: expected other images than those of the audit, got {left_out} of {available} that "
            f"are among them (different pictures: {images.tested.different}); give a training split, or leave it out: "
            "probes then learn from the images that are not attacked"
        )
    if not plan.classes_apart:
        # Class 3 must be one class in both, whatever numbers the files give it
        images.tested.number_classes_as(train)
    return replace(images, left_out=left_out)


def _without_unlabelled(images: ImageSet, plan: Plan) -> str:
    """Leave out images without a label where a measure reads labels; return a line that says so, "" where none was."""
    if not (readers := plan.find_label_readers()):
        return ""
    whole = len(images)
    if not (left_out := images.leave_out_unlabelled()):
        return ""
    if len(images) < 2:
        raise NotEnough(
            f"{images}: expected at least 2 images with a label, got {len(images)} of {whole}; {', '.join(readers)} "
            f"need{'s' if len(readers) == 1 else ''} them"
        )
    return (
        f"{left_out:,} of {whole:,} images of {images} have no label (-1, or nothing) and are left out: "
        f"{', '.join(readers)} read{'s' if len(readers) == 1 else ''} labels"
    )


def open_selected(
    plan: Plan,
    source: ImageSource | None,
    selections: tuple[Selection, Selection | None],
    training: ImageSource | None = None,
) -> AuditImages:
    """Open the images of a plan of which another process has read all, without doing so again."""
    images, (tested_selection, train_selection) = open_unread(plan, source, training), selections
    images.tested.recall(tested_selection)
    if images.train is not None and train_selection is not None:
        images.train.recall(train_selection)
        if not plan.classes_apart:
            images.tested.number_classes_as(images.train)
    return images


@dataclass(frozen=True)
class ImageRange:
    """Some images of a set, one after the other.

    Attributes:
        images: the set.
        places: where these stand in it.
        device: where they are read to, as torch names it.
        memory_format: how they lie there, see `memory_format`.
    """

    images: ImageSet
    places: range
    device: str
    memory_format: torch.memory_format

    def __len__(self) -> int:
        return len(self.places)

    def __str__(self) -> str:
        return str(self.images)

    @cached_property  # every shard asks, and there may be a million images
    def ids(self) -> Ids:
        """The ids of these images."""
        return self.images.ids[self.places.start : self.places.stop]

    @cached_property
    def labels(self) -> Int[Tensor, "images"] | None:
        """The classes of these images; None unless the source knows them all."""
        labels = self.images.labels
        return None if labels is None else torch.tensor(labels[self.places.start : self.places.stop], dtype=torch.int64)

    def batch(self, start: int, stop: int) -> Images:
        """Return images start to stop (excluded) of these."""
        x = self.images.batch(self.places.start + start, self.places.start + stop)
        return move_to_device(x, self.device, self.memory_format)

    def at(self, positions: Positions) -> Images:
        """Return the images at some places; nothing is read ahead unless they follow each other."""
        places = positions.tolist()
        first, last = places[0], places[-1]
        if places == list(range(first, last + 1)):
            return self.batch(first, last + 1)
        x = self.images.pick([self.places.start + place for place in places])
        return move_to_device(x, self.device, self.memory_format)

    def disturb(self, x: Images, positions: Positions, threat: Threat, rng: Rng) -> Images:
        """Return the images at some places, which are x for the encoder, under a threat; see `ImageSet.disturb`."""
        return self.images.disturb(x, [self.places.start + place for place in positions.tolist()], threat, rng)


def move_to_device(x: Images, device: str, memory_format: torch.memory_format) -> Images:
    """Return images on a device, to which they are copied beside the passes before."""
    return move_to(x, device).contiguous(memory_format=memory_format)


def memory_format(encoder: Encoder) -> torch.memory_format:
    """Return channels_last for convolutional networks (a tenth faster or more), else the usual format."""
    convolutions = sum(
        isinstance(module, nn.Conv2d) or getattr(module, "convolves", False) for module in encoder.modules()
    )
    return torch.channels_last if convolutions > 1 else torch.contiguous_format  # one: a transformer's patches
