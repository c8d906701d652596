"""Surrogates: encoders that are attacked instead of the audited one, fitted to images of its size."""

from collections.abc import Mapping

import torch
from torch import nn

from holdfast.core import Encoder, Passes
from holdfast.runtime.errors import Failed, NotFinite, Unsupported, first_line
from holdfast.sources.encoders import open_encoder
from holdfast.sources.encoders.shared.fit import fit_to


class Surrogate(Encoder):
    """A surrogate on images of the audited encoder, f_s ∘ fit: the pixels that move are those of the audited encoder.

    Its passes are counted by the audited encoder, beside that one's own.

    Args:
        encoder: the surrogate.
        shape: (channels, height, width) of the images.
        audited: the encoder under audit.

    Raises:
        HoldfastError: a mean over draws, whose attacks would take other draws than its own.
    """

    def __init__(self, encoder: Encoder, shape: tuple[int, int, int], audited: Encoder):
        if encoder.draws is not None:
            raise Unsupported(
                f"surrogate {encoder.name!r}: expected an encoder without random numbers, got the mean of "
                f"{encoder.draws} draws; switch them off and leave draws out"
            )
        module, mean, std = encoder.module, encoder.mean, encoder.std
        if fit := fit_to(encoder, shape):
            module, mean, std = nn.Sequential(fit, encoder.normalisation, module), [0.0], [1.0]
        super().__init__(module, mean=mean, std=std, name=encoder.name, origin=encoder.origin)
        self._tell = audited.count
        self.prepare(precision=audited.precision, compiled=audited.compiled)
        self.to(audited.device)
        self.check(shape)

    def count(self, passes: Passes) -> None:
        """Tell the audited encoder."""
        self._tell(passes)

    def check(self, shape: tuple[int, int, int]) -> None:
        """Run it on one grey image, uncounted."""
        tell, self._tell = self._tell, lambda passes: None
        try:
            with torch.no_grad():
                reps = self(torch.full((1, *shape), 0.5, device=self.device))
        except Exception as error:  # whatever a foreign network raises
            raise Failed(
                f"surrogate {self.name!r}: expected an encoder that takes images {list(shape)}, as the audited one "
                f"does, or says its own size; got: {first_line(error)}"
            ) from error
        finally:
            self._tell = tell
        if not bool(reps.isfinite().all()):
            raise NotFinite(
                f"surrogate {self.name!r}: expected finite representations, got NaN or infinity; check its weights and "
                "its normalisation"
            )


class Surrogates:
    """The surrogates of one audited encoder; the last one is kept open, for several may not fit into memory.

    Args:
        audited: the encoder under audit, on its device.
        shape: of its images.
        opened: encoders that are open already, by the plan's name for them.
    """

    def __init__(self, audited: Encoder, shape: tuple[int, int, int], opened: Mapping[str, Encoder]):
        self._audited, self._shape, self._opened = audited, shape, opened
        self._last: tuple[str, Surrogate] | None = None
        self._identities: dict[str, list[str]] = {}

    def __call__(self, spec: str) -> Encoder:
        """Return a surrogate by its spec; the audited encoder itself where that is ""."""
        if not spec:
            return self._audited
        if self._last is None or self._last[0] != spec:
            self._last = None
            encoder = self._opened[spec] if spec in self._opened else open_encoder(spec)
            self._last = spec, Surrogate(encoder, self._shape, self._audited)
        return self._last[1]

    def identity(self, spec: str) -> list[str]:
        """Return what decides a surrogate's representations, for the names of shards; why none, where it cannot be had.

        That it cannot be opened is said where it is run.
        """
        if spec not in self._identities:
            try:
                encoder = self(spec)
            except Exception as error:  # whatever a foreign network raises
                return [first_line(error)]
            facts = (f"{key}={encoder.origin[key]}" for key in sorted(encoder.origin))
            self._identities[spec] = [encoder.refresh_fingerprint(), str(encoder.module), *facts]
        return self._identities[spec]
