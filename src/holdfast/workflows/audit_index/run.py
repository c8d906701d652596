"""Look at one index: every number once, and all pairs of some items."""

import math
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from holdfast.auditing.record import environment, software
from holdfast.config.requirements import parse
from holdfast.core import Divergence, Score, registry
from holdfast.numerics import statistics
from holdfast.numerics.geometry import feature_space, spectrum
from holdfast.numerics.geometry.hubs import hubness, occurrences
from holdfast.numerics.geometry.image_pairs import ImagePairs
from holdfast.numerics.geometry.nearest import nearest_of_many
from holdfast.numerics.geometry.neighbour_lists import leave_out_own, neighbour_lists
from holdfast.numerics.rng import Rng
from holdfast.numerics.statistics import jackknife
from holdfast.numerics.statistics.list_means import list_mean
from holdfast.numerics.statistics.statistic import Median
from holdfast.numerics.statistics.thresholds import pair_quantile
from holdfast.runtime.errors import BadPlace, NotEnough
from holdfast.runtime.exit_status import ExitStatus
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.privacy import public
from holdfast.sources.data.shared.in_words import plural
from holdfast.sources.vectors import Vectors, open_vectors
from holdfast.storage.entry import as_json, read_json
from holdfast.storage.filesystem import Folder
from holdfast.storage.index_audit import SCHEMA, Hub, IndexAudit, NearPair, VectorPlanEntry, VectorsEntry
from holdfast.storage.index_upgrade import IndexMeasure
from holdfast.storage.record_file import RECORD as AUDIT
from holdfast.storage.run_folder import Store, digest
from holdfast.workflows.audit_index.looked import look
from holdfast.workflows.audit_index.plan import VectorPlan
from holdfast.workflows.compare_index.stored import ALL, SOME
from holdfast.workflows.compare_index.thresholds import Distanced, enough
from holdfast.workflows.compare_index.upgrade import PAIRED, findings

FOUND = "index_audit.json"

TOP = 0.01
"""Share of the items that count as hubs."""

SHOWN = 10
"""Hubs, and pairs, that are named."""

MEAN = "mean"

Reps = Float[Tensor, "items dim"]
Measures = dict[str, IndexMeasure]


def audit_index(
    asked: VectorPlan,
    folder: str | Path,
    *,
    vectors: Vectors | None = None,
    listener: Listener | None = None,
    overwrite: bool = False,
    command: str = "",
) -> IndexAudit:
    """Look at an index, write `index_audit.json` into a folder, and return it.

    Raises:
        HoldfastError: vectors that cannot be read, too few of them for the neighbours, a folder that holds something.
    """
    listener = listener or Silent()
    # Raises now, not after everything was read
    for requirement in asked.require:
        parse(requirement)
    # Before anything is read: a million vectors take minutes
    kept = Folder(folder)
    if kept.exists(AUDIT) or (kept.exists(FOUND) and not overwrite):
        raise BadPlace(f"the folder {str(kept)!r} holds something already; choose another --out, or add --overwrite")
    listener.stage(f"reading {public(asked.vectors)}")
    # Every number once: what is not finite is told, and left out
    opened = vectors or open_vectors(asked.vectors)
    every = look(opened)
    usable = len(every.usable)
    if usable < asked.k + 2:
        raise NotEnough(
            f"{opened.name}: expected at least {asked.k + 2} vectors of finite numbers, for lists of {asked.k} "
            f"neighbours, got {usable:,}"
        )
    # all pairs of some items, which are drawn
    most = math.isqrt(ALL // opened.dim)
    count = min(usable, asked.queries or max(most, PAIRED))
    order = every.usable[torch.randperm(usable, generator=Rng(asked.seed).child("queries").generator())]
    chosen = order[:count].sort().values
    # In the order of the file, which is read from its beginning to its end
    looked = Looked(asked, opened, chosen, opened.values[chosen].double())
    # Made only now: what is refused leaves no folder
    store = Store(folder)
    with closing(store.claim(digest([as_json(asdict(asked)), opened.survey.fingerprint]), say=listener.stage)):
        # Lists, then near-duplicates in the whole index, then shape
        measures, hubs = looked.hubness(listener)
        listener.stage("looking for near-duplicates")
        near, pairs = looked.find_near(every.usable)
        measures |= near
        listener.stage("looking at directions and distances")
        measures |= looked.shape()
        threshold, why = looked.threshold(order[:PAIRED])
        measures |= threshold
        length = Median(every.lengths).score()
        measures |= {"length": _entry("length of a vector, median", length, "ratio", "", "1 where it is normalised.")}
        answers = findings(public(opened.name), measures, why, asked.require, asked.metric.in_words)
        passed = all(finding.met for finding in answers)
        survey = opened.survey
        # What nobody should miss, by ids
        notes = list(opened.notes)
        for rows, what in ((survey.zero, "zero"), (survey.not_finite, "not finite, and left out of all else")):
            if len(rows):
                notes.append(f"{len(rows):,} of {plural(len(opened), 'vector')} are {what} ({opened.name_rows(rows)})")
        if every.constant:
            notes.append(f"{plural(len(every.constant), 'dimension')} of {opened.dim} with one value throughout")
        if count < usable:
            notes.append(
                f"all pairs of {count:,} of {usable:,} items are compared; an index has more hubs if it is larger"
            )
        notes += [f"no threshold: {why}"] if why else []
        record = IndexAudit(
            schema=SCHEMA,
            holdfast=software(),
            command=command,
            plan=VectorPlanEntry(**as_json(asdict(asked))),
            vectors=VectorsEntry(
                name=public(opened.name),
                items=len(opened),
                dim=opened.dim,
                kind=str(opened.values.dtype).removeprefix("torch."),
                fingerprint=survey.fingerprint[:16],
                compared=count,
                zero=len(survey.zero),
                not_finite=len(survey.not_finite),
                copies=every.copies,
                constant=every.constant,
                shortest=float(every.lengths.min()),
                longest=float(every.lengths.max()),
            ),
            distance=asked.metric.in_words,
            measures=measures,
            hubs=hubs,
            pairs=pairs,
            groups=[[str(opened.ids[row]) for row in group[:SHOWN]] for group in every.groups],
            notes=notes,
            environment=environment(),
            finished=datetime.now(UTC).isoformat(timespec="seconds"),
            findings=answers,
            passed=passed,
            status=int(ExitStatus.DONE if passed else ExitStatus.UNMET),
        )
        written = public(as_json(record))
        store.write_json(FOUND, written)
        return read_json(written, IndexAudit)


@dataclass(frozen=True)
class Looked:
    """Some items of an index, all pairs of which are compared.

    Attributes:
        asked: what is asked.
        vectors: all of them.
        rows: where these stand.
        reps: theirs, in float64.
    """

    asked: VectorPlan
    vectors: Vectors
    rows: Int[Tensor, "items"]
    reps: Reps

    def hubness(self, listener: Listener) -> tuple[Measures, list[Hub]]:
        """Return how unevenly lists of neighbours are filled, and the items in most of them."""
        k, items = self.asked.k, len(self.rows)
        listener.begin("neighbours", items, "lists")
        lists = neighbour_lists(self.reps, k + 1, self.asked.metric, listener.advance)
        found, counts = hubness(lists, TOP), occurrences(lists[:, :k])
        skew, hubs, absent = (found[name] for name in ("skew", "hubs", "antihubs"))
        # An item counts by its own list and by those that it stands in
        parts = jackknife.of_function(float(hubs.values[0, 0]), hubs.without[0])
        value = float(skew.values[0, 0])
        # few hubs make third moments, so that no interval kept its level in simulations
        of_these = Score(
            value if math.isfinite(value) else None, None, None, items, "none: the skewness of these items"
        )
        by = self.asked.metric.in_words
        measures = {
            "hubs": _entry(
                f"share of lists that {TOP:.0%} of the items hold",
                statistics.mean(parts, most=1.0),
                "share",
                "lower",
                f"Of the places in lists of {k} neighbours by {by}: {TOP:.0%} where all items are found alike. Hubs "
                "are found whatever is searched.",
            ),
            "antihubs": _entry(
                "items that no list holds",
                list_mean(absent.values[0], absent.without[0], k),
                "share",
                "lower",
                "What no other item finds among its neighbours, a search will hardly find either.",
            ),
            "hubness": _entry(
                "skewness of how often items are found",
                of_these,
                "ratio",
                "lower",
                "0 where it is symmetric; above 1 there are hubs.",
            ),
        }
        # Of as many lists the lower row first
        most = counts.argsort(descending=True, stable=True)[:SHOWN]
        named = [Hub(id=str(self.vectors.ids[int(self.rows[at])]), lists=int(counts[at])) for at in most.tolist()]
        return measures, named

    def find_near(self, usable: Int[Tensor, "usable"]) -> tuple[Measures, list[NearPair]]:
        """Return how many items have a near-duplicate in the whole index, and the nearest pairs that were found."""
        # Copied only where rows must be left out
        whole = len(usable) == len(self.vectors)
        bank = self.vectors.values if whole else self.vectors.values[usable]
        cosine: Divergence = registry.part("divergences", "cosine")
        # as many as can be looked for among all
        some = self.rows[torch.linspace(0, len(self.rows) - 1, self._count_searches()).long()]
        found, apart = nearest_of_many(self.vectors.values[some], bank, 2, cosine)
        found = found if whole else usable[found]
        others = leave_out_own(found, some)
        distance = torch.where(found[:, :1] == others, apart[:, :1], apart[:, 1:2]).squeeze(1)
        alike = (1 - distance >= self.asked.similar - 1e-12).double()
        # Queries are drawn, and the index stays as it is
        without = (alike.sum() - alike) / max(len(alike) - 1, 1)
        # A pair is found from both of its items
        pairs: dict[tuple[str, str], float] = {}
        for at in distance.argsort(stable=True).tolist():
            if alike[at] and len(pairs) < SHOWN:
                first, second = sorted((int(some[at]), int(others[at, 0])))
                pairs[str(self.vectors.ids[first]), str(self.vectors.ids[second])] = 1 - float(distance[at])
        entry = _entry(
            f"items with a near-duplicate, cosine ≥ {self.asked.similar:g}",
            list_mean(alike, without, 1, drawn=True),
            "share",
            "lower",
            "Of queries drawn from this index: another item has a cosine of so much or more.",
        )
        return {"near_duplicates": entry}, [NearPair(first=a, second=b, cosine=c) for (a, b), c in pairs.items()]

    def _count_searches(self) -> int:
        items, dim = self.vectors.values.shape
        return min(len(self.rows), max(PAIRED // 10, SOME // (4 * items * dim)))

    def shape(self) -> Measures:
        """Return how many directions are in use, and how evenly."""
        # All pairs of some items, evenly from the whole
        fewer = self.reps[:: max(1, len(self.reps) // PAIRED)]
        return {
            "effective_rank": _entry(
                f"effective rank, of {self.vectors.dim} dimensions",
                statistics.mean(spectrum.effective_rank(self.reps)),
                "ratio",
                "higher",
                "Directions in use: from 1, all items on a line, to the dimension.",
            ),
            "participation_ratio": _entry(
                "participation ratio",
                statistics.mean(spectrum.participation_ratio(self.reps)),
                "ratio",
                "higher",
                "The same, ruled by the largest directions.",
            ),
            "uniformity": _entry(
                "uniformity",
                statistics.mean(feature_space.uniformity(fewer)),
                "ratio",
                "higher",
                "0 where all items point the same way, 4 where all are orthogonal.",
            ),
        }

    def threshold(self, rows: Int[Tensor, "paired"]) -> tuple[Measures, str]:
        """Return the distance that the rate of all pairs lies below, or why there is none."""
        by = self.asked.metric
        if why := enough(len(rows), self.asked.rate, "item"):
            return {}, why
        pairs = ImagePairs(len(rows), torch.empty(0, 2, dtype=torch.long))
        apart = pairs.distances(self.vectors.values[rows].double(), by)
        distanced = Distanced(pairs, apart, apart, by, "item")
        limit = distanced.at(0, self.asked.rate)
        score = pair_quantile(distanced.order_statistics[0], self.asked.rate, distanced.below(apart, limit))
        return {
            "threshold": _entry(
                f"threshold at {self.asked.rate:.3g} of all pairs, {by.in_words}",
                by.show_score(score),
                "ratio",
                "",
                "So many pairs of items are nearer.",
            )
        }, ""


def _entry(
    title: str, score: Score, unit: str, better: Literal["lower", "higher", ""], how_to_read: str
) -> IndexMeasure:
    return IndexMeasure(
        title=title, unit=unit, better=better, how_to_read=how_to_read, headline=MEAN, scores={MEAN: score}
    )
