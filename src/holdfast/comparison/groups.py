"""Methods, of several seeds each: a group of encoders is compared as one encoder is, by the mean of its seeds."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np
from msgspec import structs

from holdfast.auditing.differences import Pair, withhold_doubtful
from holdfast.comparison.paired import Paired, why_not
from holdfast.comparison.records import Audited, Run, last_look
from holdfast.core import Score
from holdfast.numerics.statistics.looks import looking
from holdfast.numerics.statistics.seeds import difference_over_seeds, mean_over_seeds
from holdfast.runtime.checked import describe_value
from holdfast.runtime.errors import BadValue, NotEnough, UnknownName
from holdfast.storage.record import CheckEntry, EncoderEntry
from holdfast.storage.standing import SOUND, VOID, is_accepted, void_checks

Globs = Mapping[str, str | Sequence[str]]
"""Name of a group -> what its encoders, or their run folders, are called; several names, or one with wildcards."""

OVER_SEEDS = (
    "Each number is the mean over the seeds of a method. Its 95 % interval, and that of each difference, is over "
    "images and seeds. All seeds see the same images, so differences are paired image by image; seeds are not paired. "
    "The interval over images and Welch's t over seeds are added in squares (MOVER). p is 1 - the highest level at "
    "which that interval excludes zero."
)
FEWEST = 2
"""Seeds by which a method is judged, at least."""

EXAMPLE = "'simclr=simclr-*,byol=byol-*'"


@dataclass(frozen=True)
class Group:
    """A method.

    Attributes:
        name: what it is called.
        seeds: its encoders, two or more.
    """

    name: str
    seeds: tuple[Audited, ...]

    @cached_property
    def whole(self) -> Audited:
        """All of its seeds as one encoder, of which a check says the worst that it says of any of them.

        Where a check voids the numbers of some, the others stand for the method, which is then called best on nothing.
        """
        first = self.seeds[0].run
        places = dict.fromkeys(seed.run.place for seed in self.seeds)
        record = structs.replace(
            first.record,
            plan=structs.replace(first.record.plan, allow=[]),  # what a run allows is left out of the checks
            run=structs.replace(first.record.run, rounds=None),
        )
        run = replace(first, place=", ".join(places), record=record)
        return Audited(self.name, run, EncoderEntry(name=self.name, checks=self._judge()))

    def _judge(self) -> dict[str, CheckEntry]:
        """Return the gravest verdict of each check, with the seeds that it is about."""
        found: dict[str, list[tuple[str, CheckEntry]]] = {}
        # a training that failed is no part of the mean, if others are left, but the method did fail once
        void = {seed.name: void_checks(seed.entry, seed.allow) for seed in self.seeds}
        stand = sum(not names for names in void.values()) >= FEWEST
        # what each seed's run allows counts for nothing
        for seed in self.seeds:
            for name, check in seed.entry.checks.items():
                if stand and name in void[seed.name]:
                    check = structs.replace(check, status="warn", consequence="no winner")
                if check.status != "fail" or not is_accepted(name, seed.allow):
                    found.setdefault(name, []).append((seed.name, check))
        # a method is no better than the seed of which most must be feared
        checks = {}
        for name, verdicts in found.items():
            grave = next(s for s in ("fail", "warn", "pass", "skip") if any(s == check.status for _, check in verdicts))
            about = [(seed, check) for seed, check in verdicts if check.status == grave]
            of: dict[str, list[str]] = {}  # finding -> the seeds
            for seed, check in about:
                of.setdefault(check.finding, []).append(seed)
            alike = list(map(len, of.values())) == [len(self.seeds)]
            finding = "; ".join(said if alike else f"{', '.join(seeds)}: {said}" for said, seeds in of.items())
            checks[name] = structs.replace(about[0][1], finding=finding)
        return checks


def read_groups(text: str) -> dict[str, str]:
    """Return the groups in "NAME=GLOB,NAME=GLOB"."""
    globs: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, glob = (part.strip() for part in pair.partition("="))
        if not name or not equals or not glob:
            raise BadValue(f"groups: expected NAME=GLOB for each method, such as {EXAMPLE}, got {pair!r}")
        if name in globs:
            raise BadValue(f"groups: expected each name once, got {name!r} twice; give one GLOB that matches both")
        globs[name] = glob
    return globs


def make_groups(globs: Globs, encoders: Sequence[Audited]) -> list[Group]:
    """Return the groups of encoders: of those whose names match, or of all in the run folders that do where none does.

    Raises:
        HoldfastError: what matches nothing, a group without two seeds, an encoder in two groups.
    """
    if not globs:
        raise BadValue(f"groups: expected a method or more, such as {EXAMPLE}, got none")
    groups = [Group(name, tuple(_find_seeds(name, wanted, encoders))) for name, wanted in globs.items()]
    for group in groups:
        if len(group.seeds) < FEWEST:
            alone = "".join(seed.name for seed in group.seeds)
            raise NotEnough(
                f"groups: expected two seeds of {group.name!r} or more, got {alone}; one checkpoint does not represent "
                "a method: train it with other seeds, or compare encoders, without groups"
            )
        for a, b in itertools.combinations(group.seeds, 2):  # a copy would hide how much seeds differ
            if a.entry.fingerprint == b.entry.fingerprint:
                raise BadValue(
                    f"groups: expected different seeds of {group.name!r}, but {a.name} and {b.name} have the same "
                    "weights; give each seed once"
                )
    for a, b in itertools.combinations(groups, 2):
        if both := [seed.name for seed in a.seeds if seed in b.seeds]:
            raise BadValue(
                f"groups: expected each encoder in one group, got {both[0]} in {a.name!r} and {b.name!r}; narrow a GLOB"
            )
    return groups


def _find_seeds(group: str, wanted: str | Sequence[str], encoders: Sequence[Audited]) -> list[Audited]:
    """Return the encoders that names, or globs, of a group mean."""
    found: dict[str, Audited] = {}
    # the names of encoders may have brackets, so each means itself first
    globs = [wanted] if isinstance(wanted, str) else wanted
    if not isinstance(globs, Sequence) or not globs or not all(isinstance(glob, str) for glob in globs):
        raise BadValue(f"groups: expected names of encoders for {group!r}, got {describe_value(wanted)}")
    for glob in globs:
        place = glob if "://" in glob else str(PurePosixPath(glob))
        own = [e for e in encoders if e.name == glob] or [e for e in encoders if fnmatchcase(e.name, glob)]
        own = own or [e for e in encoders if any(fnmatchcase(name, place) for name in _places(e.run))]
        if not own:
            names = ", ".join(e.name for e in encoders)
            raise UnknownName(
                f"groups: expected encoders or run folders that match {glob!r}, for {group!r}, got none; known: {names}"
            )
        found |= {e.name: e for e in own}
    return list(found.values())


def _places(run: Run) -> set[str]:
    """Return what a run folder may be called."""
    whole = {str(run.folder.local.absolute())} if run.folder.local else set[str]()
    return whole | {run.place, run.folder.place, PurePosixPath(run.folder.place).name}


def find_ungrouped(groups: Iterable[Group], encoders: Iterable[Audited]) -> list[str]:
    """Return a sentence about the encoders that are in no group."""
    grouped = {seed.name for group in groups for seed in group.seeds}
    names = [e.name for e in encoders if e.name not in grouped]
    return [f"{', '.join(names)}: left out, in no group"] if names else []


def pair_groups(measure: Paired, groups: Sequence[Group], unfit: Mapping[str, Sequence[str]]) -> Paired:
    """Return a measure of methods out of that of their seeds.

    A method has the mean of those seeds that have a number, two or more; it is a bound on one side where that of a seed
    is.
    """
    asked = {encoder.name: entry for encoder, entry in measure.question.answers}
    answers, reasons = [], {}
    seeds: dict[str, dict[str, Score]] = {}
    without_seeds: dict[str, dict[str, str]] = {}
    scores: dict[str, Score] = {}
    look = last_look(seed for group in groups for seed in group.seeds)
    for group in groups:
        names = [seed.name for seed in group.seeds if seed.name in measure.scores]
        lost = {
            seed.name: why_not(seed.name, asked.get(seed.name), measure.reasons, unfit) or "no table"
            for seed in group.seeds
            if seed.name not in names
        }
        if len(names) < FEWEST:
            without, why = next(iter(lost.items()))
            reasons[group.name] = f"no number: {without}: {why}"
            whole = structs.replace(measure.about, scores={}, headline=None, error=reasons[group.name])
        else:
            without_seeds[group.name] = lost
            seeds[group.name] = {name: measure.scores[name] for name in names}
            entry = asked[names[0]]
            with looking(look):
                together = _correlations(names, measure)
                scores[group.name] = score = average_seeds(list(seeds[group.name].values()), entry.unit, together)
            whole = structs.replace(entry, scores={str(entry.headline): score})
        answers.append((group.whole, whole))
    # every two methods, as far as their checks let them be compared
    better = measure.question.better
    with looking(look):
        pairs = [_pair(a, b, seeds, measure) for a, b in itertools.combinations(scores, 2)]
    pairs = [withhold_doubtful(pair, scores, better) for pair in pairs]
    return Paired(replace(measure.question, answers=answers), scores, {}, reasons, pairs, seeds, without_seeds)


def tell_lost_seeds(measures: Sequence[Paired], groups: Sequence[Group]) -> list[str]:
    """Return a sentence about each seed that is in no mean, or not in that of some measures, and why."""
    lost: dict[tuple[str, str, str], list[str]] = {}
    for measure in measures:
        for group, seeds in measure.without_seeds.items():
            for seed, why in seeds.items():
                lost.setdefault((group, seed, why), []).append(measure.question.title)
    # one sentence of what holds for all measures alike
    counts = {group.name: len(group.seeds) for group in groups}
    return [
        f"{group}: the mean is over the other seeds of {counts[group]}, without {seed}"
        f"{'' if len(titles) == len(measures) else ' on ' + ', '.join(titles)}: {why}"
        for (group, seed, why), titles in lost.items()
    ]


def average_seeds(each: Sequence[Score], unit: str, correlations: np.ndarray | None = None) -> Score:
    """Return the mean of the scores of a method's seeds, and what their checks leave of it.

    Args:
        each: those of the seeds.
        unit: of their measure.
        correlations: how the contributions of each image to them go together; None: wholly, the widest interval.
    """
    mean = mean_over_seeds(each, np.ones((len(each), len(each))) if correlations is None else correlations)
    # no interval ends where none of a seed can
    least, most = {"share": (0.0, 1.0), "pixels": (0.0, np.inf)}.get(each[0].unit or unit, (-np.inf, np.inf))
    low, high = mean.low, mean.high
    if low is not None and all(score.low is not None and score.low >= least for score in each):
        low = max(low, least)
    if high is not None and all(score.high is not None and score.high <= most for score in each):
        high = min(high, most)
    # a mean is at least so much where each part is exact or at least so much
    flawed = list(dict.fromkeys(score.standing for score in each if score.standing != SOUND))
    standing = SOUND if not flawed else flawed[0] if len(flawed) == 1 else VOID
    because = dict.fromkeys(check for score in each for check in score.because)
    checks = dict.fromkeys(check for score in each for check in score.checks)
    return replace(
        mean, low=low, high=high, unit=each[0].unit, better=each[0].better, if_weak=each[0].if_weak,
        standing=standing, because=tuple(because), checks=tuple(checks),
    )  # fmt: skip


def _pair(first: str, second: str, seeds: Mapping[str, Mapping[str, Score]], measure: Paired) -> Pair:
    a, b = seeds[first], seeds[second]
    gap, p = difference_over_seeds(list(a.values()), list(b.values()), _correlations([*a, *b], measure))
    return Pair(first, second, gap, p)


def _correlations(names: Sequence[str], measure: Paired) -> np.ndarray:
    """Return how the contributions of each image to the scores of encoders go together."""
    known = {frozenset((pair.first, pair.second)): pair.correlation for pair in measure.pairs}
    return np.array([[known.get(frozenset((a, b)), 1.0) for b in names] for a in names], dtype=float)
