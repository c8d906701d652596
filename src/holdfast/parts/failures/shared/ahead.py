"""How far rivals are ahead in a search: what failures to be found have in common."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.core import Divergence, Event
from holdfast.numerics.geometry import pairwise
from holdfast.parts.failures.shared.alike import LEAST


def rivals_ahead(
    scores: Float[Tensor, "rows draws results"],
    wanted: Bool[Tensor, "rows results"],
    rival: Bool[Tensor, "rows results"],
    k: int,
) -> Float[Tensor, "rows draws"]:
    """Return the k-th largest score of a rival less the largest of what is wanted."""
    best = scores.masked_fill(~wanted[:, None], -torch.inf).amax(2)
    # An index of fewer than k results has a last one that is no rival, -∞
    rivals = scores.masked_fill(~rival[:, None], -torch.inf).topk(min(k, scores.shape[2]), dim=2).values
    return rivals[..., -1] - best


def in_units_at_x(ahead: Event, clean: Float[Tensor, "images dim"], hopeless: Bool[Tensor, "images"]) -> Event:
    """Return an event over its size without a disturbance: -1 at x where x does not fail.

    Args:
        ahead: the event in units of its own.
        clean: representations of the undisturbed images of the shard, [B, D].
        hopeless: images that cannot fail: there is nothing to find, or too few rivals.
    """
    # The value at x itself, [B], is the unit; where it is zero (a tie) or
    # undefined, the event keeps its own
    at = ahead(clean[:, None], torch.arange(len(clean))).squeeze(1)
    size = torch.where(at.isfinite() & (at != 0), at.abs(), 1.0)

    def event(reps: Tensor, rows: Tensor) -> Tensor:
        rows = rows.to(size.device)
        # Images that cannot fail get the least value there is, whatever their scores say
        value = (ahead(reps, rows) / size[rows, None]).masked_fill(hopeless[rows, None], LEAST)
        return value.clamp_min(LEAST)

    return event


def distances_ahead(
    divergence: Divergence,
    bank: Float[Tensor, "results dim"],
    wanted: Bool[Tensor, "images results"],
    rival: Bool[Tensor, "images results"],
    k: int = 1,
) -> Event:
    """Return the event of how much nearer the k-th nearest rival is than what is wanted, by any divergence.

    Values need all pairs, gradients two of them alone, and follow what the divergence lets attacks pursue.

    Args:
        divergence: how representations are compared.
        bank: clean representations of the population, in float64.
        wanted: which of these each image is looked for, or belongs to.
        rival: which ones must not be nearer.
        k: which of these counts.
    """

    def ahead(reps: Float[Tensor, "rows draws dim"], rows: Int[Tensor, "rows"]) -> Float[Tensor, "rows draws"]:
        rows = rows.to(wanted.device)
        # All pairs are compared on the CPU, without a graph: that would hold every one of them
        with torch.no_grad():
            apart = pairwise.pairwise(reps.flatten(0, 1).cpu(), bank.cpu(), divergence).to(bank.device)
            apart = apart.unflatten(0, reps.shape[:2])  # [rows, draws, N]
            own = apart.masked_fill(~wanted[rows, None], torch.inf).min(2)
            rivals = apart.masked_fill(~rival[rows, None], torch.inf).topk(min(k, len(bank)), dim=2, largest=False)
            value = own.values - rivals.values[..., -1]
        # Zero, with the gradient of the two that decide
        if reps.requires_grad:
            moved = reps.double()
            along = divergence.pursue(moved, bank[own.indices]) - divergence.pursue(
                moved, bank[rivals.indices[..., -1]]
            )
            value = value + (along - along.detach())
        return value

    return ahead
