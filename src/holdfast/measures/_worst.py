"""The worst representations that attacks found, whether one attack searched or several."""

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.attacks.ensemble import Ensemble
from holdfast.checked import Count
from holdfast.core import Attack, Ball, Objective, Subject
from holdfast.observations.attacked import Attacked


def trajectories(
    attack: Attack, ball: Ball, objective: Objective, steps: tuple[int, ...], first: Count | None = None
) -> tuple[Attacked, ...]:
    """Return the trajectories of an attack: one, read out at `steps`, or one for each member of an ensemble."""
    if isinstance(attack, Ensemble):
        return tuple(Attacked(member, ball, objective, first=first) for member in attack.members)
    return (Attacked(attack, ball, objective, steps, first),)


def worst(subject: Subject, attack: Attack, runs: tuple[Attacked, ...]) -> dict[int, Float[Tensor, "attacked dim"]]:
    """Return the attacked representations at every read-out of some trajectories, in float64.

    For an ensemble those of each image's strongest member: the one with the largest final objective.
    """
    if not isinstance(attack, Ensemble):
        seen = subject.read(runs[0])
        return {step: seen[f"reps@{step}"].double() for step in runs[0].steps}
    members = [(part.attack.steps, subject.read(part)) for part in runs]
    strongest = torch.stack([seen["values"][:, steps] for steps, seen in members]).argmax(0)
    reps = torch.stack([seen[f"reps@{steps}"] for steps, seen in members])
    return {attack.steps: reps[strongest, torch.arange(len(strongest))].double()}
