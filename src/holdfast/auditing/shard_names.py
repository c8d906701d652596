"""Names of the folders of shards: a name says everything that decides what is in them."""

from dataclasses import replace
from typing import Any

from holdfast.auditing.surrogates import Surrogates
from holdfast.core import Encoder, Geometry, Observation, registry
from holdfast.runtime.version import VERSION
from holdfast.sources.data import ImageSet
from holdfast.storage.run_folder import digest, files_read

LAYOUT = 6
"""Version of what shard files hold; part of their key."""


class ShardNames:
    """Names for what is observed of one encoder on the images of an audit.

    Args:
        encoder: the encoder under audit.
        surrogates: the encoders that observations run on instead.
        images: the population, rendered for the audited encoder.
        train: the images that probes learn from; None: those that are not attacked.
        settings: what else decides all that is stored: seed, batch size and the like.

    Attributes:
        identity: what the encoder is: the digest of its weights and of what else decides the representation.
        decisive: what decides all that is stored, beside the observation.
    """

    def __init__(
        self, encoder: Encoder, surrogates: Surrogates, images: ImageSet, train: ImageSet | None, settings: list[Any]
    ):
        self._surrogates, self._images, self._train = surrogates, images, train
        own, described = encoder.refresh_fingerprint(), _describe_encoder(encoder, images.geometry)
        self.identity = digest([own, described])
        files = sorted(registry.files().values())
        self._common = [images.fingerprint, str(images.conversion), *settings, *files]
        self.decisive = [LAYOUT, VERSION, own, described, *self._common]

    def folder(self, observation: Observation) -> str:
        """Return the folder of an observation's shards."""
        spec = registry.spec(observation)
        decisive = self._of_surrogate(observation.surrogate) if observation.surrogate else self.decisive
        others = [self._surrogates.identity(read.surrogate) for read in observation.prerequisites() if read.surrogate]
        return f"cache/{digest([decisive, spec, *others, *self._labels_read(observation), *files_read(spec)])}"

    def _of_surrogate(self, spec: str) -> list[Any]:
        """Return what decides what is seen of a surrogate: it, and the pixels, whichever encoder is audited."""
        geometry = self._images.geometry and replace(self._images.geometry, source="")
        pixels = [str(geometry), list(self._images.shape)]
        return [LAYOUT, VERSION, *self._surrogates.identity(spec), *pixels, *self._common]

    def _labels_read(self, observation: Observation) -> list[str | None]:
        """Return the fingerprints of what else an observation depends on: training images, labels of both."""
        train, images = self._train, self._images
        known: list[str | None] = [] if train is None else [train.fingerprint, str(train.conversion)]
        if not observation.needs_labels:
            return known if observation.scope.training else []
        return [images.labels_fingerprint, *known, *([] if train is None else [train.labels_fingerprint])]


def _describe_encoder(encoder: Encoder, geometry: Geometry | None) -> list[str]:
    """Return what, beside the weights, decides the representation."""
    facts = {key: str(value) for key, value in encoder.origin.items()}
    return [str(encoder.module), str(geometry), *(f"{key}={facts[key]}" for key in sorted(facts))]
