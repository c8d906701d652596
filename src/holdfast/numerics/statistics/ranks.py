"""Ranks with uncertainty: the places that an encoder may have."""

from collections.abc import Collection, Mapping


def rank_intervals(beaten: Mapping[str, Collection[str]]) -> dict[str, tuple[int, int]]:
    """Places that each encoder may have, [1 + #{better than it}, n - #{worse than it}].

    "Better" and "worse" are verdicts of paired comparisons. Where with 95 % confidence no verdict is wrong (Holm over
    all pairs), with the same confidence all true places lie in these intervals at once: whoever is truly better by a
    verdict stands before, and whoever is worse behind. Encoders that are truly equal share all places of their tie.

    Args:
        beaten: for each of the n encoders, those that it is better than.

    Source: Al Mohamad, Goeman & van Zwet (2022), "Simultaneous confidence intervals for ranks with application to
    ranking institutions", Biometrics 78, there with Tukey's verdicts; Klein, Wright & Wieczorek (2020), "A joint
    confidence region for an overall ranking of populations".

    Example:
        >>> rank_intervals({"a": ["b", "c"], "b": [], "c": []})
        {'a': (1, 1), 'b': (2, 3), 'c': (2, 3)}
    """
    losses = {name: sum(name in losers for losers in beaten.values()) for name in beaten}
    return {name: (1 + losses[name], len(beaten) - len(losers)) for name, losers in beaten.items()}
