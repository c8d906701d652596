"""`holdfast.certify`: one image against others that somebody names, from Python."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import PIL.Image
from torch import Tensor

from holdfast.api.in_memory import Model, Normalised, choose_device, listen, open_encoders
from holdfast.core import Encoder, HoldfastError, Images
from holdfast.report.certified_pair import publish, section
from holdfast.report.document import Document
from holdfast.report.documents.certified_pair import document, line
from holdfast.report.render import Shown
from holdfast.runtime.errors import BadValue, Failed, Mismatch
from holdfast.runtime.foreign import foreign
from holdfast.runtime.listener import Listener
from holdfast.runtime.option import Option, convert, takes
from holdfast.sources.data import render
from holdfast.sources.data.arrays import Arrays
from holdfast.sources.encoders import open_encoder
from holdfast.storage.certified_pair import CertifiedPair, FailedPair
from holdfast.storage.entry import as_json
from holdfast.workflows.certify.pair import Judged, Question, judge
from holdfast.workflows.certify.pictures import Pictures, stack
from holdfast.workflows.certify.request import CertifyOptions
from holdfast.workflows.monitor.snapshot import isolate_global_state

Picture = Any
"""An image: the path of a picture file, a Pillow picture, a tensor [C, H, W] or an array [H, W, C], in [0, 1]."""


class PairResult(Shown):
    """What is known of one image against others; it prints itself.

    Args:
        answer: what is known, or why nothing is.
        judged: the same with pixels; None where nothing is known.
    """

    def __init__(self, answer: CertifiedPair | FailedPair, judged: Judged | None = None):
        self._answer, self._judged = answer, judged

    @property
    def error(self) -> str:
        """Why a pair of a list could not be judged; "" else."""
        return self._answer.error if isinstance(self._answer, FailedPair) else ""

    @property
    def answer(self) -> CertifiedPair:
        """All that is known, typed.

        Raises:
            HoldfastError: a pair that could not be judged.
        """
        if isinstance(self._answer, FailedPair):
            raise Failed(self._answer.error)
        return self._answer

    @property
    def certificate(self) -> float:
        """ε within which no change makes the image nearer to any of the others; of given ones, the largest; 0: none."""
        return self.answer.low

    @property
    def attack(self) -> float | None:
        """ε of the smallest change found that makes it nearer to one of them; None: none was found."""
        return self.answer.high

    @property
    def verdicts(self) -> dict[float, str]:
        """Certified, undecided or broken, at each ε that was given."""
        return dict(self.answer.verdicts)

    @property
    def tightest(self) -> str:
        """The name of the other image that is certified least far."""
        return self.answer.tightest.name

    @property
    def images(self) -> list[Tensor | None]:
        """The image [C, H, W] that was found to be nearer to each of the others; None where none was."""
        return [] if self._judged is None else list(self._judged.found)

    @property
    def data(self) -> Any:
        """The answer as JSON data."""
        return as_json(self._answer)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write a page with the pictures, which opens offline, and return where it is."""
        if self._judged is None:
            raise Failed(f"expected a pair that could be judged, got one that could not: {self.error}")
        judged = self._judged
        publish(os.fspath(path), [section(judged.answer, judged.image, judged.others, judged.found)], [], "")
        return os.fspath(path)

    def _document(self) -> Document:
        return line(self._answer) if isinstance(self._answer, FailedPair) else document(self._answer)


@dataclass(frozen=True)
class Certify(CertifyOptions, Normalised):
    """What is asked of pairs in Python: the network and the images may be objects."""

    encoder: Annotated[Model, Option("An `Encoder`, a network, or a spec such as timm:resnet18.")]
    image: Annotated[
        Picture,
        Option(
            "The image: a file, a Pillow picture, a tensor [C, H, W] or an array [H, W, C]; a list of them makes pairs."
        ),
    ]
    against: Annotated[
        Picture,
        Option(
            "What it must not be nearer to than to itself: an image, or several; for a list of images a list of these."
        ),
    ]
    _: KW_ONLY
    quiet: Annotated[bool, Option("Show no progress.")] = False


@takes(Certify)
def certify(asked: Certify) -> PairResult | list[PairResult]:
    """Prove how far an image can change and stay nearer to itself than to others, and find what breaks it.

    These are CERTIFY and PREDICT of RVCL for a pair that you name, by the measures `certified_radius`,
    `instance_accuracy` and `smoothed_radius` of audits, which draw pairs.

    Returns:
        What is known: `certificate`, `attack`, with `eps` the `verdicts`. Print it, or `save` it as a page. For a list
        of images a list, in which a pair that fails says why (`error`).

    Raises:
        HoldfastError: a network, images or an ε that cannot be used, two images of one representation.
    """
    question = Question.read(convert(asked, CertifyOptions))
    # After the words that may be wrong, what takes time
    opened = open_encoders(asked.encoder, asked.mean, asked.std)
    if len(opened) != 1:
        raise BadValue(f"encoder: expected one, got {len(opened)}; certify by one after the other")
    # One image with what is around it, or many
    several = _several(asked.image)
    pairs = list(_pairs([asked.image] if several is None else several, asked.against, several is not None))
    with isolate_global_state(), listen(asked.quiet) as bars:
        encoder = next(iter(opened.values()))
        encoder = encoder if isinstance(encoder, Encoder) else open_encoder(encoder)
        encoder = encoder.to(choose_device(asked.device, {encoder.name: encoder}))
        results = [_judge(question, encoder, names, pictures, several is None, bars) for names, pictures in pairs]
    return results[0] if several is None else results


def _judge(
    question: Question, encoder: Encoder, names: list[str], pictures: list[Picture], alone: bool, listener: Listener
) -> PairResult:
    """Return what is known of a pair; of one in a list that fails, why."""
    try:
        with foreign(f"the pair of {names[0]!r}", "judged", wrap=True):
            pixels = [_read(picture, name, encoder) for picture, name in zip(pictures, names, strict=True)]
            judged = judge(question, encoder, stack(pixels, names), names, listener)
    except HoldfastError as error:
        if alone:
            raise
        return PairResult(FailedPair(image=names[0], against=names[1:], error=str(error), error_code=error.code))
    return PairResult(judged.answer, judged)


def _pairs(images: list[Picture], against: Picture, listed: bool) -> Iterator[tuple[list[str], list[Picture]]]:
    """Yield names and pictures of each pair: the image first, then the others."""
    # As many as there are images, each one or several
    others = (_several(against) or [against]) if listed else [against]
    if len(others) != len(images):
        raise Mismatch(
            f"against: expected what each of {len(images)} images must not be nearer to, got {len(others)}; give a "
            "list of as many, each an image or a list of several"
        )
    for number, (image, other) in enumerate(zip(images, others, strict=True)):
        each = _several(other)
        each = [other] if each is None else each
        if not each:
            raise BadValue("against: expected at least one image, got none")
        place = f" {number}" if listed else ""
        names = [f"the other{place}" if len(each) == 1 else f"the other{place} {k}" for k in range(len(each))]
        yield [_name(image, f"the image{place}"), *map(_name, each, names)], [image, *each]


def _several(value: Picture) -> list[Picture] | None:
    """Return the images of a list or a batch; None for one image."""
    if isinstance(value, (Tensor, np.ndarray)):
        return list(value) if value.ndim > 3 else None
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else None


def _name(picture: Picture, usual: str) -> str:
    return os.fspath(picture) if isinstance(picture, (str, os.PathLike)) else usual


def _read(picture: Picture, name: str, encoder: Encoder) -> Images:
    """Return the pixels of an image as the encoder sees it."""
    if isinstance(picture, (str, os.PathLike)):
        return Pictures(encoder, None).read([os.fspath(picture)], Path())[0]
    if isinstance(picture, PIL.Image.Image):
        return render(picture, encoder.geometry)
    if not isinstance(picture, (Tensor, np.ndarray)) or picture.ndim not in (2, 3):
        shape = f"the shape {list(picture.shape)}" if hasattr(picture, "shape") else type(picture).__name__
        raise BadValue(f"{name}: expected a file, a picture, a tensor [C, H, W] or an array [H, W, C], got {shape}")
    # One image as a batch of one, whose layout its kind tells
    layout = "NHW" if picture.ndim == 2 else "NCHW" if isinstance(picture, Tensor) else None
    pixels = Arrays(picture[None], layout=layout, name=name).load(0)
    # An array is not resized unasked, a file is: its picture has no size that was meant for an encoder
    size = None if encoder.geometry is None else encoder.geometry.size
    if size is not None and tuple(pixels.shape[1:]) != tuple(size):
        raise Mismatch(
            f"{name}: expected {size[0]}x{size[1]} pixels, which encoder {encoder.name!r} takes, got "
            f"{pixels.shape[1]}x{pixels.shape[2]}; resize it, or give its file, which is rendered for the encoder"
        )
    return pixels
