"""Both sides of attacked pairs, for the measures that ask whether two images can be confused."""

import torch

from holdfast.core import Subject, Table
from holdfast.parts.measures.shared.attack_measure import AttackMeasure
from holdfast.parts.observations.attacked import pair_of, partners


def compare_pairs(measure: AttackMeasure, subject: Subject) -> Table:
    """Return the distances of Eq. 2 for every attacked image x_i and its partner x_j, as seen from x_i.

    Columns, one row per attacked image: `own@STEP`, d(f(x_i), f(x̂_i→j)); `other@STEP`, d(f(x_i), f(x̂_j→i));
    `apart`, d(f(x_i), f(x_j)); `pair`.
    """
    clean, attacked = measure.reps(subject)
    distance = measure.divergence
    positions = torch.arange(subject.attacked)
    partner = partners(positions)
    x = clean[positions]
    table: Table = {"pair": pair_of(positions), "apart": distance(x, clean[partner])}
    for step, reps in attacked.items():
        # Eq. 2 from the side of x_i: how far it went itself, and how near
        # its partner's attack came to it
        table[f"own@{step}"] = distance(reps, x)
        table[f"other@{step}"] = distance(reps[partner], x)
    return table
