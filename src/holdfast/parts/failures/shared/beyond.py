"""How far representations are beyond a limit: what failures by distance have in common."""

from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Divergence, Event


def distance_beyond(divergence: Divergence, home: Float[Tensor, "images dim"], limit: float) -> Event:
    """Return the event d(f', home) / limit - 1.

    Args:
        divergence: d; what has no gradient is followed by its stand-in.
        home: the representation that each image of the shard is compared with, in float64.
        limit: above 0.
    """

    def event(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
        moved, still = reps.double(), home[rows.to(home.device), None].expand_as(reps)
        value = divergence(moved, still) / limit - 1
        # Zero, with the gradient of the stand-in, where d itself has none
        along = divergence.pursue(moved, still) if reps.requires_grad and not value.requires_grad else None
        return value if along is None else value + (along - along.detach()) / limit

    return event
