"""Clean representations: one forward pass of every image."""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import override

from holdfast.core import HoldfastError, Passes, Reps, Shard, Subject
from holdfast.parts.observations.shared.all import OfAll
from holdfast.parts.observations.shared.judged_again import reevaluate_with_new_draws
from holdfast.runtime.errors import Failed, NotFinite, first_line


@dataclass(frozen=True)
class Clean(OfAll):
    """f(x) of every image of the population, as `reps` [N, D]; of a mean over draws by others too (`redrawn`)."""

    @staticmethod
    def of(subject: Subject) -> Reps:
        """Return them, [N, D] in float32."""
        return subject.read(Clean())["reps"]

    @property
    @override
    def title(self) -> str:
        return "clean representations"

    @property
    def passes(self) -> Passes:
        """One forward pass."""
        return Passes(forward=1)

    @property
    def redraw_evaluations(self) -> int:
        """Once."""
        return 1

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Represent one shard.

        Raises:
            HoldfastError: an encoder that fails, that changes its input, or a representation that is not finite.
        """
        # f(x), by code of others, which may fail in any way or write into x
        kept = shard.x.clone()
        try:
            with torch.no_grad():
                reps = shard.encoder(shard.x)
        # These already say what to do
        except (HoldfastError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise Failed(
                f"encoder {shard.encoder.name!r} fails on images {list(kept.shape[1:])} of {kept.dtype}: "
                f"{first_line(error)}; "
                "?channels= and ?size= of the data spec change the images, .float() the encoder"
            ) from error
        if not torch.equal(shard.x, kept):
            raise Failed(
                f"encoder {shard.encoder.name!r} changes its input in place; let it work on a copy (x = x.clone())"
            )
        # every representation is finite
        bad = (~torch.isfinite(reps).all(1)).nonzero().flatten().tolist()
        if bad:
            names = ", ".join(shard.rng.ids[i] for i in bad[:3])
            raise NotFinite(
                f"encoder {shard.encoder.name!r}: the representation of {len(bad)} images is NaN or infinite "
                f"(first: {names}); check its weights, its normalisation and its precision: float16 ends at 65,504"
            )
        return {"reps": reps.float(), **reevaluate_with_new_draws(shard.encoder, shard.x, "reps")}
