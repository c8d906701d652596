"""Canaries: pairs of images that must match, or must not, whatever encoder is behind the index."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.core import Divergence
from holdfast.runtime.doors import read_list
from holdfast.runtime.errors import BadData, UnknownName, os_reason, unknown
from holdfast.storage.index_upgrade import Both, Closeness, JudgedCanary, Outcome, Sides
from holdfast.workflows.compare_index.thresholds import Thresholds

HEAD = ["first", "second", "expected"]
MANY = 100_000
"""Ids among which that is looked for which was meant."""

OUTCOMES: dict[tuple[bool, bool], Outcome] = {
    (True, True): "holds",
    (True, False): "broken",
    (False, True): "mended",
    (False, False): "wrong before and after",
}
"""What becomes of a canary that was right before, or not, and is so after."""


@dataclass(frozen=True)
class Canary:
    """A pair by the places of its images, and which side it belongs on."""

    first: int
    second: int
    expected: Closeness


def read_canaries(path: Path, ids: Sequence[str], available: int, noun: str = "image") -> list[Canary]:
    """Return the pairs of a CSV file with the columns first, second (ids of images) and expected (together, apart)."""
    try:
        lines = csv.reader(io.StringIO(read_list(path, "utf-8-sig")))
        rows = [(number, [cell.strip() for cell in row]) for number, row in enumerate(lines, 1) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"canaries: cannot read {str(path)!r}: {os_reason(error)}; give a CSV file") from error
    places = {name: place for place, name in enumerate(ids)}
    canaries: dict[frozenset[int], Canary] = {}
    for number, row in rows[1:] if rows and rows[0][1] == HEAD else rows:
        where = f"canaries, line {number}"
        if len(row) != 3 or row[2] not in ("together", "apart"):
            raise BadData(f"{where}: expected first,second,together or first,second,apart, got {','.join(row)!r}")
        for name in row[:2]:
            if name not in places:
                chosen = f" ({len(ids)} of {available} images are compared; --images takes more)"
                # to look for what was meant among very many takes too long
                error = unknown(f"{noun} in {where}:", name, ids[:MANY])
                raise UnknownName(f"{error}{chosen if len(ids) < available else ''}")
        # a pair in either order is one canary
        first, second = places[row[0]], places[row[1]]
        if first == second:
            raise BadData(f"{where}: expected two different {noun}s, got {row[0]!r} twice")
        if (pair := frozenset((first, second))) in canaries:
            raise BadData(f"{where}: expected each pair once, got {row[0]!r} and {row[1]!r} again")
        canaries[pair] = Canary(first, second, row[2])
    if not canaries:
        raise BadData(f"canaries: expected at least one pair in {str(path)!r}, got none")
    return list(canaries.values())


def collect_known_copies(canaries: Sequence[Canary]) -> Int[Tensor, "pairs 2"]:
    """Return the pairs that belong together: no pairs of different images."""
    pairs = [(c.first, c.second) for c in canaries if c.expected == "together"]
    return torch.tensor(pairs, dtype=torch.long).view(-1, 2)


def judge_canaries(
    canaries: Sequence[Canary],
    ids: Sequence[str],
    reps: tuple[Float[Tensor, "images old_dim"], Float[Tensor, "images new_dim"]],
    thresholds: Thresholds,
    divergence: Divergence,
) -> list[JudgedCanary]:
    """Return on which side of the thresholds each canary lies, before and after; broken ones first."""
    limits = thresholds.old.value, thresholds.new.value
    assert limits[0] is not None
    assert limits[1] is not None
    rows: list[JudgedCanary] = []
    for canary in canaries:
        old, new = (float(divergence(r[canary.first].double(), r[canary.second].double())) for r in reps)

        def side(distance: float, limit: float) -> Closeness:
            return "together" if distance < limit else "apart"

        # what a deployment that keeps its threshold would see is told beside
        sides = Sides(old=side(old, limits[0]), new=side(new, limits[1]), kept=side(new, limits[0]))
        # the threshold is estimated: a canary between the ends of its interval may lie on either side
        ends = [end for end in (thresholds.new.low, thresholds.new.high) if end is not None]
        rows.append(
            JudgedCanary(
                first=ids[canary.first],
                second=ids[canary.second],
                expected=canary.expected,
                distances=Both(old=divergence.show(old), new=divergence.show(new)),
                sides=sides,
                outcome=OUTCOMES[sides.old == canary.expected, sides.new == canary.expected],
                near=any(side(new, end) != sides.new for end in ends),
            )
        )
    return sorted(rows, key=lambda row: get_args(Outcome).index(row.outcome))
