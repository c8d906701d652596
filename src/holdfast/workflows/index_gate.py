"""The gate of an index: a run's encoder instead of the baseline's, on representations that both audits kept."""

import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from holdfast.auditing.plan import CLEAN
from holdfast.comparison.baseline import same_images
from holdfast.comparison.records import Audited, Run
from holdfast.comparison.stored import load_observation
from holdfast.config.requirements import parse
from holdfast.runtime.errors import Mismatch
from holdfast.runtime.listener import Listener
from holdfast.storage.finding import Finding
from holdfast.storage.index_upgrade import Both, IndexUpgrade, JudgedCanary, NamedEncoder, PairedImages
from holdfast.workflows.compare_index.canaries import Canary, read_canaries
from holdfast.workflows.compare_index.plan import IndexPlan
from holdfast.workflows.compare_index.upgrade import Represented, findings, upgrade

MEASURED = re.compile(
    r"(overlap@(?P<k>\d+)|cosine(_below)?|rank_biased_overlap|distance_correlation|distance_scale|threshold|false_positives)(\..*)?"
)
"""What can be required of a run and its baseline together."""


@dataclass(frozen=True)
class IndexQuestions:
    """How an index is looked at.

    Attributes:
        canaries: a CSV file of pairs that must match, or must not; None: there are none.
        rate: false positives at which thresholds are set, a share of the pairs; None: the usual one.
        threshold: the baseline's threshold, a distance, instead of a rate.
        divergence: how representations are compared; None: l2.
    """

    canaries: str | None = None
    rate: float | None = None
    threshold: float | None = None
    divergence: str | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in asdict(self).values())


def of_index(run: Run, requirements: Collection[str]) -> list[str]:
    """Return the requirements that are about a run and its baseline together, not about a measure of the run."""
    own = {name for row in run.record.encoders for name in row.measures}
    subjects = {text: parse(text).subject for text in requirements}
    return [
        text
        for text, subject in subjects.items()
        if MEASURED.fullmatch(subject) and not any(f"{subject}.".startswith(f"{name}.") for name in own)
    ]


def hold_index(
    pairs: Sequence[tuple[Audited, Audited]],
    requirements: Collection[str],
    questions: IndexQuestions,
    listener: Listener,
) -> tuple[list[Finding], list[IndexUpgrade]]:
    """Return what the requirements and canaries say of each encoder instead of the baseline's, and its measures.

    Returns:
        Findings, those about canaries included; and for each pair what changes, as `compare_index` has it.
    """
    now, before = pairs[0][0].run, pairs[0][1].run
    if not same_images(now, before):
        raise Mismatch(
            f"expected {now.place!r} and {before.place!r} to be on the same images, whose neighbours are compared; "
            "audit both with the same --data, --images and --seed"
        )
    matches = [MEASURED.fullmatch(parse(text).subject) for text in requirements]
    k = sorted({int(match["k"]) for match in matches if match and match["k"]}) or [10]
    answers: list[Finding] = []
    compared: list[IndexUpgrade] = []
    for new, old in pairs:
        data = _compare_encoders(new, old, IndexPlan("", "", "", k=tuple(k), **_drop_unset(questions)), listener)
        answers += findings(new.entry.name, data.measures, data.threshold, requirements, data.distance)
        answers += [_canaries(new.entry.name, data.canaries)] if questions.canaries is not None else []
        compared.append(data)
    return answers, compared


def _drop_unset(questions: IndexQuestions) -> dict[str, Any]:
    return {key: value for key, value in asdict(questions).items() if value is not None}


def _compare_encoders(new: Audited, old: Audited, plan: IndexPlan, listener: Listener) -> IndexUpgrade:
    """Return what changes where one encoder takes the place of another."""
    record = new.run.record
    listener.stage(f"reading representations of {new.entry.name}")
    before, now = (_read_reps(encoder) for encoder in (old, new))
    canaries: list[Canary] = []
    ids: list[str] = []
    if plan.canaries is not None:
        ids = _ids(new.run)
        canaries = read_canaries(Path(plan.canaries), ids, record.data.available)
    compared = upgrade(plan, before, now, _look_alikes(new.run), canaries, ids, listener)
    return IndexUpgrade(
        encoders=Both(old=NamedEncoder(name=old.name), new=NamedEncoder(name=new.name)),
        data=PairedImages(images=record.data.images, paired=compared.pairs.images, pairs=compared.pairs.count),
        distance=plan.compared_by.in_words,
        larger_is_nearer=plan.compared_by.negated,
        measures=compared.measures,
        threshold=compared.threshold,
        translation=compared.translation,
        canaries=compared.canaries,
    )


def _read_reps(encoder: Audited) -> Represented:
    clean = load_observation(encoder, CLEAN)
    assert clean is not None  # every audit is built on it
    return Represented(clean["reps"].double())


def _ids(run: Run) -> list[str]:
    """Return the id of every image."""
    return run.table(run.record.data.table)[0]


def _look_alikes(run: Run) -> Int[Tensor, "pairs 2"]:
    """Return the pairs of images that show the same picture: each with all that look like the same one."""
    data = run.record.data
    if not data.duplicates or data.duplicates_left_out:  # those are none of the images
        return torch.empty(0, 2, dtype=torch.long)
    places = {name: place for place, name in enumerate(_ids(run))}
    groups: dict[int, set[int]] = {}
    for alike in data.duplicates:
        first, second = places[alike.image], places[alike.like]
        group = groups.get(first, {first}) | groups.get(second, {second})
        groups |= dict.fromkeys(group, group)
    distinct = {min(group): sorted(group) for group in groups.values()}
    return torch.cat([torch.combinations(torch.tensor(group)) for group in distinct.values()])


def _canaries(encoder: str, canaries: Sequence[JudgedCanary]) -> Finding:
    """Return whether no canary is broken."""
    broken = [canary for canary in canaries if canary.is_broken]
    told = [f"{c.first} and {c.second}, expected {c.expected}, are {c.sides.new} now" for c in broken]
    summary = f"{len(broken)} of {len(canaries)} broken"
    reason = f"{summary}: {'; '.join(told)}" if broken else ""
    return Finding("canaries", encoder, not broken, "none that was right is wrong now", summary, "0 broken", "", reason)
