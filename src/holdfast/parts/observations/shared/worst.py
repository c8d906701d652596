"""The worst representations that attacks found, whether one attack searched or several."""

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Objective, Rows, Subject
from holdfast.parts.attacks.ensemble import Ensemble
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.shared.margins import OfMargins, rounding
from holdfast.runtime.checked import Count


def trajectories(
    attack: Attack, ball: Ball, objective: Objective, steps: tuple[int, ...], first: Count | None = None
) -> tuple[Attacked, ...]:
    """Return the trajectories of an attack: one, read out at `steps`, or one for each member of an ensemble."""
    if isinstance(attack, Ensemble):
        return tuple(Attacked(member, ball, objective, first=first) for member in attack.members)
    return (Attacked(attack, ball, objective, steps, first),)


def lowest(subject: Subject, observed: OfMargins, ball: Ball, margins: Rows, slack: Rows) -> tuple[Rows, Rows]:
    """Return the lowest margins that any search of the run met in a ball, and what float32 may have changed them by.

    Args:
        subject: the encoder that was observed.
        observed: what the margins are of.
        ball: the ball, around each image.
        margins: the lowest ones that the observation itself met, [M, R].
        slack: what float32 may have changed these by, [M, R].
    """
    # Copies, as the minima below are taken in place on what was observed
    margin, margins, slack = observed.margins(subject.shard(len(margins))), margins.clone(), slack.clone()
    for points in subject.collect_points(ball):
        # Searches attack the first images, some fewer than others
        part = slice(min(len(points), len(margins)))
        for reps in points[part].unbind(1):
            margins[part] = margins[part].minimum(margin.part(part)(reps))
            slack[part] = slack[part].maximum(rounding(margin.part(part), reps))
    return margins, slack


def worst(subject: Subject, attack: Attack, runs: tuple[Attacked, ...]) -> dict[int, Float[Tensor, "attacked dim"]]:
    """Return attacked representations at every read-out of some trajectories, in float64; see `read_attacked_reps`."""
    return {step: reps.double() for step, reps in read_attacked_reps(subject, attack, runs).items()}


def read_attacked_reps(
    subject: Subject, attack: Attack, runs: tuple[Attacked, ...]
) -> dict[int, Float[Tensor, "attacked dim"]]:
    """Return the attacked representations at every read-out of some trajectories, as they were observed.

    For an ensemble those of each image's strongest member: the one with the largest final objective.
    """
    if not isinstance(attack, Ensemble):
        results = subject.read(runs[0])
        return {step: results[f"reps@{step}"] for step in runs[0].steps}
    members = [(part.attack.steps, subject.read(part)) for part in runs]
    # [members, attacked]: who reached the largest final objective
    strongest = torch.stack([results["values"][:, steps] for steps, results in members]).argmax(0)
    reps = torch.stack([results[f"reps@{steps}"] for steps, results in members])
    return {attack.steps: reps[strongest, torch.arange(len(strongest))]}
