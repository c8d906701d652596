"""What is known of a domain from its images, without labels: their mean and their covariance."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from holdfast.core import Observation, Passes, Scope, Shard
from holdfast.core.registry import part_name
from holdfast.numerics.gaussian_classes.covariance import Covariance, of_images
from holdfast.runtime.errors import BadValue, Missing


@dataclass(frozen=True)
class ImageCovariance(Observation):
    """Mean m and covariance F diag(v) Fᵀ + r I of images as vectors of pixels; no encoder pass.

    Tensors: `mean` [d], `vectors` F [d, k], `values` v [k], `rest` r [1].

    Attributes:
        count: how many images, the last ones of the audit, or all where there are fewer.

    Source: shrinkage of Ledoit & Wolf (2004).
    """

    count: int = 512

    scope = Scope.LAST

    def __post_init__(self) -> None:
        if self.count < 2:
            raise BadValue(f"image_covariance: expected at least 2 images, got {self.count}")

    @property
    @override
    def title(self) -> str:
        return "mean and covariance of the images"

    def key(self) -> Observation:
        """The number of images decides what is seen."""
        return self

    def join(self, twin: Observation) -> Observation:
        """Equal keys are equal."""
        return self

    def images(self, population: int, attacked: int) -> int:
        """So many images, or all."""
        return min(self.count, population)

    @property
    @override
    def passes(self) -> Passes:
        return Passes()

    def run(self, shard: Shard) -> dict[str, Tensor]:
        """Estimate both.

        Raises:
            HoldfastError: images that are all equal.
        """
        mean, covariance = of_images(shard.x.flatten(1).cpu())
        rest = covariance.vectors.new_tensor([covariance.rest])
        return {"mean": mean, "vectors": covariance.vectors, "values": covariance.values, "rest": rest}

    def read_from(self, shard: Shard) -> tuple[Covariance, Float[Tensor, "pixels"]]:
        """Return what was estimated before: covariance and mean."""
        if shard.read is None:
            raise Missing(f"{part_name(self)} must be observed before what draws by it")
        estimate = shard.read(self)
        return Covariance(estimate["vectors"], estimate["values"], float(estimate["rest"])), estimate["mean"]
