"""What the measures of transferred attacks have in common: one attack on every surrogate, and two that know more."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from holdfast.core import Attack, Ball, Measure, Objective, Observation, Score, Search, Subject, Table
from holdfast.core.chart import Chart, Shades
from holdfast.core.registry import part_name
from holdfast.core.source_spec import label
from holdfast.numerics.statistics.statistic import Difference, Statistic
from holdfast.parts.attacks.apgd import Apgd
from holdfast.parts.attacks.square import Square
from holdfast.parts.objectives.untargeted import Untargeted
from holdfast.parts.observations.attacked import Attacked
from holdfast.parts.observations.attacked_images import AttackedImages
from holdfast.parts.observations.clean import Clean
from holdfast.parts.observations.shared.worst import trajectories, worst
from holdfast.parts.observations.transferred import Transferred
from holdfast.parts.threats.linf import Linf
from holdfast.runtime.errors import BadValue
from holdfast.runtime.privacy import public

ANY, QUERIES, WHITEBOX = "any surrogate", "queries", "whitebox"
"""Beside single surrogates: the worst of all, an attack that only asks the encoder, and one that knows it."""

MORE, LESS = f"{WHITEBOX} - {ANY}", f"{ANY} - {QUERIES}"
"""Paired differences: what knowing the encoder adds, and what an open one adds to asking."""

CONDITION = "given these surrogates, this attack and this population of images"

ITSELF = "the surrogate is the encoder itself: this is a whitebox attack, and not among any surrogate"


BY_QUERIES = "the only reference: the encoder itself was not attacked along gradients"


@dataclass(frozen=True)
class TransferMeasure(Measure):
    """A measure of the audited encoder on images that were attacked on surrogates.

    A subclass says what an attack does to each image, `harm`, and how that is scored; the table has its columns for
    each of `sources`, and `same@SURROGATE`, 1 where the surrogate is the audited encoder itself.

    Attributes:
        surrogates: specs of encoders that an outsider may have; what an audit fills in where none is named are its own
            encoders.
        attack: the attack on each surrogate, and the whitebox one on the audited encoder.
        ball: where, in pixels of the audited encoder's images.
        objective: what the attack maximises, of the representations of the encoder that it attacks.
        asking: the attack without gradients that asks the audited encoder alone.
        whitebox: whether the audited encoder is attacked along its own gradients as well, which it may not have.
    """

    surrogates: tuple[str, ...] = ()
    attack: Attack = Apgd(50)
    ball: Ball = Linf(0.05)
    objective: Objective = Untargeted()
    asking: Attack = Square(500)
    whitebox: bool = field(default=True, kw_only=True)

    better = "lower"
    unit = "share"
    per_image: ClassVar[str]

    def __post_init__(self) -> None:
        AttackedImages(objective=self.objective)  # refuses what cannot be transferred
        if not all(spec.strip() for spec in self.surrogates):
            raise BadValue(
                f"{part_name(self)}: expected encoders as surrogates, got an empty name; see holdfast list encoders"
            )
        if len(set(self.names)) < len(self.names):
            raise BadValue(
                f"{part_name(self)}: expected surrogates with different names, got {', '.join(self.names)}; leave out "
                "what is named twice, or give one of them another name with ?label="
            )

    @property
    def names(self) -> tuple[str, ...]:
        """How the surrogates are called, as encoders are: by their label, or their spec."""
        return tuple(f"from {public(label(spec))}" for spec in self.surrogates)

    @property
    def sources(self) -> tuple[str, ...]:
        """What attacks come from, as the scores are called."""
        return *self.names, *self._references, ANY

    @property
    def _references(self) -> dict[str, Attack]:
        """What the audited encoder itself is attacked by, beside what is transferred."""
        return {QUERIES: self.asking} | ({WHITEBOX: self.attack} if self.whitebox else {})

    @property
    def transfers(self) -> tuple[Transferred, ...]:
        """The transferred attack of each surrogate."""
        return tuple(
            Transferred(AttackedImages(spec, self.attack, self.ball, self.objective)) for spec in self.surrogates
        )

    def observations(self) -> tuple[Observation, ...]:
        """Clean representations, the attacks on surrogates and what became of them, and the two other attacks."""
        images = (transfer.attacked for transfer in self.transfers)
        own = (self._own(attack) for attack in self._references.values())
        return Clean(), *images, *self.transfers, *(run for runs in own for run in runs)

    def _own(self, attack: Attack) -> tuple[Attacked, ...]:
        return trajectories(attack, self.ball, self.objective, (attack.steps,))

    @property
    def searches(self) -> tuple[Search, ...]:
        """The whitebox search; of the others a weak one is what an outsider has."""
        return (Search(self.attack, self.ball, self.objective),) if self.whitebox else ()

    def relies_on(self, score: str) -> tuple[Search, ...]:
        """Return the whitebox search for what it found."""
        return self.searches if score in (WHITEBOX, MORE) else ()

    @property
    def column(self) -> str:
        """What the worst of all surrogates does."""
        return f"{self.per_image}@{ANY}"

    @abstractmethod
    def harm(self, subject: Subject, reps: Float[Tensor, "attacked dim"]) -> Float[Tensor, "attacked"]:
        """Return what an attack does to each image, the larger the worse.

        Args:
            subject: the audited encoder.
            reps: its representations of the attacked images.
        """

    @abstractmethod
    def reduce_source(self, table: Table, source: str) -> Statistic:
        """Return the statistic of one of the `sources`."""

    def columns(self, subject: Subject, harm: Mapping[str, Float[Tensor, "attacked"]]) -> Table:
        """Return the columns of the table, `per_image`@SOURCE among them, from the harm of each source."""
        return {f"{self.per_image}@{source}": values for source, values in harm.items()}

    def observe(self, subject: Subject) -> Table:
        """Return what each attack does to every attacked image."""
        # what each attack does; the worst of all surrogates, image by image, leaves out the encoder itself
        transferred = {name: subject.read(run) for name, run in zip(self.names, self.transfers, strict=True)}
        harm = {name: self.harm(subject, results["reps"].double()) for name, results in transferred.items()}
        # All images alike: one or two that agree by chance do not make it the same encoder
        itself = {name: bool(results["same"].all()) for name, results in transferred.items()}
        # An attack on the encoder itself is a whitebox attack under another name
        others = [values for name, values in harm.items() if not itself[name]]
        for name, attack in self._references.items():
            (reps,) = worst(subject, attack, self._own(attack)).values()
            harm[name] = self.harm(subject, reps)
        # The worst of all surrogates, image by image: an outsider may try each of them
        harm[ANY] = torch.stack(others).amax(0) if others else torch.full_like(harm[QUERIES], torch.nan)
        # a row for each image
        table = self.columns(subject, harm)
        rows = len(table[self.column])
        return table | {f"same@{name}": torch.full((rows,), float(same)) for name, same in itself.items()}

    def reduce(self, table: Table) -> dict[str, Statistic]:
        """Return what each source does, and two paired differences; what any surrogate does is the last one."""
        sources = {source: self.reduce_source(table, source) for source in self.sources}
        for name in self.names:
            if bool(table[f"same@{name}"].all()):
                sources[name] = sources[name].restate(lambda score: replace(score, note=ITSELF))
        # Taken out and put back at the end, as the last one is the headline
        headline = sources.pop(ANY).restate(_say_where_none)
        ends = sources | {ANY: headline}
        # Both are of the same images: the difference is paired
        differences = {MORE: Difference(ends[WHITEBOX], ends[ANY])} if self.whitebox else {}
        differences[LESS] = Difference(ends[ANY], ends[QUERIES])
        if not self.whitebox:
            sources[QUERIES] = sources[QUERIES].restate(lambda score: replace(score, note=BY_QUERIES))
        # They tell what knowledge is worth to an attack, not how robust the encoder is
        told = {name: difference.say(better="neither") for name, difference in differences.items()}
        return sources | told | {ANY: headline}

    def charts(self, table: Table, scores: Mapping[str, Score]) -> tuple[Chart, ...]:
        """Return its row of the matrix of encoders and surrogates."""
        sources = (*self.names, ANY, *self._references)
        matrix = Shades(
            heading="Attacks from other encoders",
            short="transfer",
            how_to_read=(
                "Rows are the encoders that are judged, columns what the attack was made on. Each cell is what the "
                "attack did to the row's encoder, with its interval; where both are one encoder, it is a whitebox "
                "attack. “Any surrogate” takes the worst of the other encoders for each image, “queries” is an attack "
                "that only asks the row's encoder, “whitebox” one that knows it."
            ),
            title=f"{self.title}, {self.ball.title}",
            columns=tuple(source.removeprefix("from ") for source in sources),
            scores=sources,
            across="attacked on",
            label="judged on",
        )
        return (matrix,)


def _say_where_none(score: Score) -> Score:
    """Return a score whose note says why it is none."""
    if score.value is not None:
        return score
    return replace(score, note="no surrogate but the encoder itself; name others with --surrogate")
