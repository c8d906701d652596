"""Many comparisons at once: adjusted p-values."""

from collections.abc import Sequence

import numpy as np
import scipy

from holdfast.runtime.errors import unknown

CORRECTIONS = {
    "holm": "Holm: with 95 % confidence no verdict of the whole comparison is wrong",
    "bh": "Benjamini-Hochberg: of the verdicts, 5 % are expected to be wrong",
    "none": "no correction: of comparisons between equal encoders, 5 % are called different",
}
"""What each correction promises at level 0.05."""


def adjust_p_values(p: Sequence[float], correction: str) -> list[float]:
    """Adjusted p-values, to be compared with the level as they are.

    Holm: max_{j <= i} min(1, (m - j + 1) p_(j)), over the ordered p_(1) <= … <= p_(m); controls the probability of
    any false rejection whatever the dependence. Benjamini-Hochberg: min_{j >= i} min(1, m p_(j) / j); controls the
    expected share of false rejections where tests are independent or positively dependent.

    Args:
        p: one for each comparison.
        correction: "holm", "bh" or "none".

    Raises:
        HoldfastError: another correction.

    Source: Holm (1979); Benjamini & Hochberg (1995), Benjamini & Yekutieli (2001).

    Example:
        >>> [round(p, 3) for p in adjust_p_values([0.01, 0.02, 0.5], "holm")]
        [0.03, 0.04, 0.5]
    """
    if correction not in CORRECTIONS:
        raise unknown("correction", correction, CORRECTIONS)
    values, m = np.asarray(p, dtype=float), len(p)
    if correction == "none" or not m:
        return values.tolist()
    if correction == "bh":
        return scipy.stats.false_discovery_control(values).tolist()
    # Holm steps down from the smallest p, and back to the order of the comparisons
    order, result = np.argsort(values, kind="stable"), np.empty(m)
    # The j-th smallest is multiplied by m - j + 1; a larger p never becomes a smaller one
    result[order] = np.maximum.accumulate((m - np.arange(m)) * values[order]).clip(max=1)
    return result.tolist()
