"""Slopes that earlier searches found for the values inside a network: where the next one begins."""

from collections.abc import Hashable

import torch
from torch import Tensor

from holdfast.numerics.bounds.forms import Dense, Form
from holdfast.numerics.bounds.optimise import AlphaBeta, Problem

MOST = 2**27
"""Numbers that are kept for one image, half a GiB; of values for which there is no room every search begins anew."""

Index = tuple[Tensor, ...]
"""Where some values stand in a node's shape, one tensor for each axis."""


class Slopes:
    """The best α of both ends of the values inside a network, for one image, at whatever radius they were found.

    A slope is valid at every radius, and good at those nearby.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[int, Hashable], Tensor] = {}
        self._windows: set[tuple[int, Hashable]] = set()

    def begin(self, node: int, index: Index, problem: Problem) -> AlphaBeta | None:
        """Return what was kept for the rows of a problem, the usual slopes for those not met before; None if none was.

        Args:
            node: which the rows read.
            index: the values; the rows are both ends of each.
            problem: of one image, in float32.
        """
        keys = [key for key in self._kept if key[0] == node]
        if not keys:
            return None
        rows = _rows(problem.form)
        alphas = {}
        usual = None
        for key in keys:
            # [values, 2, *rest] as rows: [1, 2 · values, *shape], or [1, L, O, C, h, w] of patches
            kept = self._kept[key][index]
            alpha = kept.view(1, *(rows if key in self._windows else (2 * len(kept),)), *kept.shape[2:])
            # NaN marks values that no search has met; one bound enters their usual α
            missing = alpha.isnan()
            if missing.any():
                if usual is None:
                    usual = AlphaBeta()
                    with torch.no_grad():
                        problem.bound(usual)
                alpha = torch.where(missing, usual.alphas[key[1]], alpha)  # pyright: ignore[reportArgumentType]
            alphas[key[1]] = alpha
        return AlphaBeta(alphas)

    def keep(self, node: int, shape: tuple[int, ...], index: Index, parameters: AlphaBeta) -> None:
        """Keep the α of both ends of some values of a node."""
        count = len(index[0])
        for name, alpha in parameters.alphas.items():
            # Patches have no more positions than values, so only dense forms have two rows a value on this axis
            key, dense = (node, name), alpha.shape[1] == 2 * count
            rest = alpha.shape[2 if dense else 3 :]
            if key not in self._kept:
                size = torch.Size((*shape, 2, *rest))
                # For all values of the node at once, as others of them will be looked for
                if size.numel() + sum(t.numel() for t in self._kept.values()) > MOST:
                    continue
                self._kept[key] = alpha.new_full(size, torch.nan)
                self._windows |= set() if dense else {key}
            self._kept[key][index] = alpha.reshape(count, 2, *rest)


def _rows(form: Form) -> tuple[int, ...]:
    """Axes that count rows: rows of dense forms; positions, and rows of each, of patches."""
    return (form.coefs.shape[1],) if isinstance(form, Dense) else (len(form.at), form.coefs.shape[2])
