"""A service as something that maps arrays of images to vectors; what a run folder has of it is not asked again."""

import hashlib
from dataclasses import dataclass, field

import numpy as np
import torch

from holdfast.numerics.geometry.spread import is_unmoved
from holdfast.runtime.errors import Failed, HoldfastError
from holdfast.sources.encoders.shared.connection import Address, Client
from holdfast.sources.encoders.shared.protocols import JSON, NPY, Question
from holdfast.storage.answers import Answers, answers_to_read

AGAIN = 8
"""Images that a service is asked again of which an earlier command has its answers, to see whether it has changed."""


@dataclass
class Service:
    """A service as something that maps arrays of images to vectors.

    Args:
        address: where it is.
        question: how it is asked.
        batch: how many images a call holds at most; None: any number.
        identity: differs where it may compute something else.
    """

    address: Address
    question: Question
    batch: int | None
    identity: bytes
    _client: Client = field(init=False)
    _dim: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._client = Client(self.address)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Return the vectors of images; those that were answered before from the run folder, if they may be read."""
        if (answers := answers_to_read()) is None:
            return self._ask(images)
        # By what is sent, so that it does not matter which picture it was made of
        digests = [hashlib.sha256(image.tobytes() + repr(image.shape).encode()).digest()[:16] for image in images]
        known = answers.find(self.identity, digests)
        if known and answers.is_doubtful(self.identity) and not self._is_same(images, digests, known, answers):
            known = {}
        # Each image once, however often it is among them
        new = {digest: place for place, digest in enumerate(digests) if digest not in known}
        places, step = list(new.values()), self.batch or len(images)
        for start in range(0, len(places), step):
            part = places[start : start + step]
            vectors = self._ask(images[part])
            own = {digests[place]: vector for place, vector in zip(part, vectors, strict=True)}
            answers.keep(self.identity, own)
            known |= own
        return np.stack([known[digest] for digest in digests])

    def _is_same(
        self, images: np.ndarray, digests: list[bytes], known: dict[bytes, np.ndarray], answers: Answers
    ) -> bool:
        """Whether the service still answers as it did, of a few images; where not, its answers are forgotten."""
        some = list({digest: place for place, digest in enumerate(digests) if digest in known}.values())[:AGAIN]
        before, again = np.stack([known[digests[place]] for place in some]), self._ask(images[some])
        same = before.shape == again.shape and is_unmoved(torch.from_numpy(before), torch.from_numpy(again))
        if same:
            answers.trust(self.identity)
        else:
            answers.forget(self.identity, str(self.address))
        return same

    def _ask(self, images: np.ndarray) -> np.ndarray:
        """Ask for all of some images."""
        step = self.batch or max(1, len(images))
        return np.concatenate([self._call(images[start : start + step]) for start in range(0, len(images), step)])

    def _call(self, images: np.ndarray) -> np.ndarray:
        body, kind = self.question.write(images)
        reply = self._client.post(body, kind, f"{JSON}, {NPY}")
        try:
            vectors = self.question.read(reply, len(images))
        except HoldfastError as error:
            raise error.retell(f"{self.address}: {error}") from error
        # Before they are kept: vectors of another model would lie beside those of this one
        if self._dim not in (None, vectors.shape[1]):
            raise Failed(f"{self.address}: its vectors had {self._dim} numbers, and now have {vectors.shape[1]}")
        self._dim = vectors.shape[1]
        return vectors
