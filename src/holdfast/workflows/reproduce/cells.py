"""Numbers of a table that are no score of one measure: quantiles over images, times, learned noises."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import scipy
import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.comparison.records import Run
from holdfast.core import Scope, Score, Table, registry
from holdfast.numerics import statistics
from holdfast.numerics.gaussian_classes import synbench
from holdfast.numerics.statistics import clopper_pearson, ratios
from holdfast.numerics.statistics.entropy import entropy_ratio
from holdfast.runtime.errors import BadValue, Failed, Missing, pick, unknown
from holdfast.storage.record import EncoderEntry, MeasureEntry, ObservationEntry

T = TypeVar("T")

COSTS = ("seconds", "forward", "backward", "bounds")
"""What an observation costs, each per image."""

LEARNED = ("chance", "entropy", "evenness", "largest", "smallest", "spread")
"""Numbers of a learned noise: the share of its training draws that held and the mean entropy ratio of each
image's weights, both `along` the training; of the mean weights over tested images, their entropy ratio, the largest,
the smallest and their standard deviation."""

OTHERS = ("less", "over", "drop")
"""Keys of cells that compare their own number with that of another column."""


def entry_of(kind: str, at: Mapping[str, Any], entries: Mapping[str, T]) -> T:
    """Return the entry that a place names."""
    if kind not in at:
        raise Missing(f"the recipe does not say which {kind}")
    return pick(kind, at[kind], entries)


def encoder_of(run: Run, at: Mapping[str, Any]) -> EncoderEntry:
    """Return the entry of an encoder in a record."""
    encoder = entry_of("encoder", at, {entry.name: entry for entry in run.record.encoders})
    if encoder.error:
        raise Failed(encoder.error)
    return encoder


def measure_of(run: Run, at: Mapping[str, Any]) -> MeasureEntry:
    """Return the entry of a measure in a record."""
    measure = entry_of("measure", at, encoder_of(run, at).measures)
    if measure.failure:
        raise Failed(measure.failure)
    return measure


def read_table(run: Run, measure: MeasureEntry) -> tuple[list[str], Table]:
    """Return the table of a measure, see `Run.table`."""
    if measure.table is None:
        raise Missing(f"expected a measure with a table, {measure.title!r} has none; run the audit again")
    return run.table(measure.table)


def column_of(measure: MeasureEntry, at: Mapping[str, object]) -> object:
    """Return the column of a measure's table that a place reads: the one named as `values`, or the measure's own."""
    return at.get("values") or measure.column


def find_score(run: Run, at: Mapping[str, Any]) -> Score:
    """Return a score of a measure: its headline, or the one named; of several names, the one that the measure has."""
    measure = measure_of(run, at)
    score = at.get("score") or measure.headline
    if isinstance(score, list):
        score = next((name for name in score if name in measure.scores), score[0])
    return pick("score", score, measure.scores)


def quantile(run: Run, at: Mapping[str, Any]) -> Score:
    """Return a quantile over images of a column of a measure's table, with an interval of order statistics."""
    try:
        share = float(at["quantile"])
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share < 1:
        raise BadValue(f"quantile: expected a share between 0 and 1 as text, got {at['quantile']!r}")
    measure = measure_of(run, at)
    _, table = read_table(run, measure)
    return _quantile(pick("column", column_of(measure, at), table).double(), share)


def _quantile(values: Float[Tensor, "images"], share: float) -> Score:
    """Return a quantile; the ranks of its interval are binomial."""
    ordered = values[~values.isnan()].sort().values
    n, kind = len(ordered), f"order statistics of the {share:g} quantile over images"
    if not n:
        return Score(None, None, None, 0, kind)
    lower, upper = (int(scipy.stats.binom.ppf(tail, n, share)) for tail in (0.025, 0.975))
    value = float(ordered.quantile(share))
    if lower < 1 or upper >= n:
        # All of fewer may lie on one side with more than 2.5 %
        least = math.ceil(math.log(0.025) / math.log(max(share, 1 - share)))
        return Score(value, None, None, n, kind, note=f"{n} images are too few for an interval: it takes {least}")
    return Score(value, float(ordered[lower - 1]), float(ordered[upper]), n, kind)


def cost(run: Run, at: Mapping[str, Any]) -> Score:
    """Return the cost of one kind of observation of a measure for each image: seconds of the clock, or passes.

    Of synthetic images it is for each set of them, such as one distance of SynBench's classes.
    """
    if at["cost"] not in COSTS:
        raise unknown("cost", at["cost"], COSTS)
    kinds: dict[str, list[ObservationEntry]] = {}
    for observation in encoder_of(run, at).observations:
        if at.get("measure") in observation.serves:
            kinds.setdefault(observation.part["name"], []).append(observation)
    observed = pick(f"observation of {at.get('measure')}", at.get("observation"), kinds)
    spent = sum(o.seconds if at["cost"] == "seconds" else getattr(o.passes, at["cost"]) for o in observed)
    data, part = run.record.data, registry.build(observed[0].part)
    synthetic = part.scope is Scope.SYNTHETIC
    images = part.images(data.images, data.attacked) if synthetic else data.attacked
    return Score(spent / images, None, None, images, "none: one run", note="of one run, on this machine")


def ratio(upper: Score, lower: Score) -> Score:
    """Return one number over another; with an interval, as of unpaired ones, where both have one and are not negative.

    Where the lower one cannot be told from 0 the ratio has no value.
    """
    ends = (upper.value, upper.low, upper.high, lower.value, lower.low, lower.high)
    if all(end is not None and end >= 0 for end in ends):
        return ratios.ratio(upper, lower, correlation=0.0)
    value = upper.value / lower.value if upper.value is not None and lower.value else None
    note = "" if value is not None else "a ratio to 0 or to nothing"
    return Score(value, None, None, min(upper.n, lower.n), "none: a ratio of two numbers", note=note)


def noise(run: Run, at: Mapping[str, Any]) -> Score:
    """Return a number of the noise that a measure learned."""
    by_measure = {name: noise for noise in reversed(encoder_of(run, at).noises) for name in noise.measures}
    learned = pick("measure of a learned noise", at.get("measure"), by_measure)
    quantity, along = at["noise"], at.get("along", 1)
    if quantity not in LEARNED:
        raise unknown("noise", quantity, LEARNED)
    if not isinstance(along, (int, float)) or not 0 <= along <= 1:
        raise BadValue(f"along: expected a share of the training between 0 and 1, got {along!r}")
    # Along its training: on the images that it was learned from
    if quantity in ("chance", "entropy"):
        course, images = getattr(learned.training, quantity), learned.learned_on
        value = course[round(along * (len(course) - 1))]
        if quantity == "chance":
            kind = "binomial, as if each training image had one draw"
            return Score(value, *clopper_pearson(value * images, images), images, kind)
        return Score(value, None, None, images, "none: one training", note="" if value is not None else "one component")
    # What came of it: the mean weights over tested images
    if learned.problem:
        raise Failed(learned.problem)
    assert learned.weights is not None  # without a problem it has both
    assert learned.images is not None
    weights = torch.tensor(learned.weights.mean, dtype=torch.float64)
    if len(weights) == 1 and quantity in ("evenness", "spread"):
        return Score(None, None, None, learned.images, "none: one training", note="one component")
    facts = {"evenness": entropy_ratio, "largest": torch.max, "smallest": torch.min, "spread": torch.std}
    return Score(float(facts[quantity](weights)), None, None, learned.images, "none: one training")


def fluctuation(run: Run, at: Mapping[str, Any]) -> Score:
    """Return the fluctuation of a measure's accuracies along the checkpoints of a training."""
    series = {entry.name: entry.fluctuation for entry in run.record.series}
    measures = pick("series of checkpoints", at.get("encoder"), series)
    accuracies = pick("measure that says which images are right", at.get("measure"), measures)
    if accuracies.problem is not None:
        raise Failed(accuracies.problem)
    assert accuracies.mean is not None  # without a problem it has both
    assert accuracies.classes is not None
    if at["fluctuation"] == "mean":
        return accuracies.mean
    name, classes, n = at["fluctuation"], accuracies.classes, accuracies.mean.n
    if name.startswith("class ") and name not in classes:
        return Score(None, None, None, n, "none: of one training", note=f"undefined: no tested image is of {name}")
    value = pick("fluctuation", name, {"mean": None, "noise": accuracies.noise, **classes})
    return Score(value, None, None, n, "none: of one training")


def equivariance(run: Run, at: Mapping[str, Any]) -> Score:
    """Return how alike attention under a corruption is to that of the clean image, moved as the corruption moves it."""
    maps = encoder_of(run, at).attention
    if maps.problem is not None:
        raise Failed(maps.problem)
    strips = {strip.title: strip.agreement for strip in maps.strips or () if strip.agreement}
    alike = pick("reading", at.get("reading", "representation"), pick("corruption", at["attention"], strips))
    values = torch.tensor([math.nan if value is None else value for value in alike], dtype=torch.float64)
    if bool(values.isnan().all()):
        raise Failed(f"attention under {at['attention']}: every map is flat, or of a cropped image")
    shifted = statistics.mean(values[~values.isnan()] + 1, condition="of the images of the report", most=2.0)
    ends = [None if end is None else end - 1 for end in (shifted.value, shifted.low, shifted.high)]
    return replace(shifted, value=ends[0], low=ends[1], high=ends[2])


def bound(run: Run, at: Mapping[str, Any]) -> Score:
    """Return E(a), the expected scaled bound of two drawn classes where accuracy is above a."""
    measure = measure_of(run, at)
    _, table = read_table(run, measure)
    kind, epsilon = ("reference ", None) if at.get("epsilon") == "images" else ("", at.get("epsilon"))
    tried = {name.rpartition("@")[2]: name for name in table if name.startswith("bound@")}
    name = next(iter(tried)) if epsilon is None else f"{epsilon:g}"
    pick("epsilon", name, tried)
    accuracy, bounds = (table[f"{kind}{column}@{name}"].double() for column in ("accuracy", "bound"))
    value = synbench.curve(accuracy, bounds, torch.tensor([float(at["bound"])]))
    return Score(float(value), None, None, len(bounds), "none: of one grid of distances")


NUMBERS: dict[str, Callable[[Run, Mapping[str, Any]], Score]] = {
    "fluctuation": fluctuation, "noise": noise, "cost": cost, "quantile": quantile,
    "attention": equivariance, "bound": bound,
}  # fmt: skip
"""Keys of cells whose number is made from a record otherwise than as a score of a measure, and how."""

APART = frozenset({*NUMBERS, "mean", "trainings", "correlates", "among", *OTHERS})
"""Keys of cells that are not the score of a measure itself."""
