"""An encoder being observed: runs observations shard by shard, stores them, and hands them to measures."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from holdfast.auditing.images import ImageRange, memory_format
from holdfast.auditing.memory import MemoryLimits
from holdfast.auditing.plan import CLEAN, Plan, Split, training
from holdfast.auditing.shards import (
    Cost,
    Rows,
    ShardFile,
    ShardNames,
    ShardResults,
    Written,
    fits,
    join_rows,
    spans,
    unlike,
)
from holdfast.auditing.surrogates import Surrogates
from holdfast.core import (
    Ball,
    Bank,
    Classifier,
    Encoder,
    Failure,
    Head,
    Images,
    LinearProbe,
    Observation,
    Passes,
    Positions,
    Probe,
    Relevance,
    Rng,
    Scope,
    Shard,
    Subject,
    Threat,
    registry,
)
from holdfast.core.ids import Ids
from holdfast.core.observation import learning_of
from holdfast.core.own_ball import balls_of, require_one_ball
from holdfast.core.precision import use_precision
from holdfast.core.threat import image_shape
from holdfast.numerics.geometry.spread import is_unmoved
from holdfast.runtime.errors import BadData, Missing, NotCertified, NotEnough, Unsupported, no_labels
from holdfast.runtime.foreign import forbid_mutation
from holdfast.sources.data import ImageSet
from holdfast.storage.answers import reading
from holdfast.storage.run_folder import Store

Progress = Callable[[int], None]
"""Told how much work, in encoder passes, has been done (or was found stored)."""


class Session:
    """One encoder with the images of an audit; see `holdfast.core.Subject`.

    Args:
        encoder: the encoder, on its device.
        images: the population, rendered for this encoder.
        attacked: how many images, the first ones, are attacked by now.
        reserved: how many are to be attacked in the end; probes learn from the others. None: the same.
        cuts: where shards end beside whole batches, see `cuts_of`.
        seed: the seed of the run.
        batch_size: images per encoder pass and per shard file.
        device: where the encoder runs.
        store: where shards are kept; shards that are there already are not run again.
        progress: see `Progress`.
        train: the images that probes learn from, rendered for this encoder; None: those that are not attacked.
        opened: encoders that are open already, among which surrogates may be, by the plan's name for them.

    Attributes:
        costs: of the observations that are complete.
        split: how the images are divided.
        decisive: what decides all that is stored, beside the observation.
        identity: what the encoder is: the digest of its weights and of what else decides the representation.
        remade: how many shards were stored, but do not fit the others, and were made again.
    """

    def __init__(
        self,
        encoder: Encoder,
        images: ImageSet,
        *,
        attacked: int,
        reserved: int | None = None,
        cuts: Sequence[int] = (),
        seed: int,
        batch_size: int,
        device: str,
        store: Store,
        progress: Progress = lambda passes: None,
        train: ImageSet | None = None,
        opened: Mapping[str, Encoder] | None = None,
    ):
        # The encoder, and its images: those of the audit, and those that probes learn from
        self.encoder, self.images, self.attacked, self.seed = encoder, images, attacked, seed
        self.batch_size, self._store, self._progress, self.train = batch_size, store, progress, train
        training_images = None if train is None else len(train)
        self.split = Split(len(images), attacked, attacked if reserved is None else reserved, training_images)
        self._cuts = tuple(cuts)
        layout = memory_format(encoder)
        self.encoder.to(memory_format=layout)  # pyright: ignore[reportCallIssue] torch has no stub for it
        self._all = ImageRange(images, range(len(images)), device, layout)
        self._training = (
            ImageRange(images, range(self.split.reserved, len(images)), device, layout)
            if train is None
            else ImageRange(train, range(len(train)), device, layout)
        )

        # What was observed and learned so far
        self._tensors: dict[Observation, dict[str, Tensor]] = {}
        self._files: dict[Observation, list[ShardFile]] = {}  # of what is too much for memory
        self._relied_on: tuple[Observation, ...] = ()
        self._written: dict[str, Written] = {}  # by file, until their observation is complete
        self._rows: dict[Observation, Rows] = {}  # of these
        self.costs: dict[Observation, Cost] = {}
        self.refusals: dict[Observation, str] = {}
        self.remade = 0
        self._learned: dict[tuple[Probe, Threat | None, bool], Classifier] = {}
        self._shard_files: dict[Observation, list[ShardFile]] = {}
        self._memory = MemoryLimits(encoder)

        # What decides all that is stored, beside the observation
        settings = [seed, batch_size, self.split.reserved, encoder.precision, encoder.compiled]
        self._surrogates = Surrogates(encoder, images.shape, opened or {})
        self._names = ShardNames(encoder, self._surrogates, images, train, settings)
        self.decisive, self.identity = self._names.decisive, self._names.identity

    @property
    def population(self) -> int:
        """How many images there are."""
        return len(self.images)

    @property
    def ids(self) -> Ids:
        """The id of every image."""
        return self.images.ids

    @property
    def labels(self) -> Int[Tensor, "population"] | None:
        """The class of every image; None where the source does not know them all."""
        return self._all.labels

    @property
    def relevance(self) -> Relevance | None:
        """Which images of the population are relevant to which; None where these are no retrieval task."""
        return self.images.relevance

    @property
    def has_training_set(self) -> bool:
        """Whether probes learn from images of their own."""
        return self.train is not None

    def batch(self, start: int, stop: int) -> Images:
        """Return images of the population on the encoder's device, in its memory format."""
        return self._all.batch(start, stop)

    def read_again(self) -> list[tuple[str, str]]:
        """Return the (id, how) of some images across all sets: how each has changed since the audit began; "": not."""
        return [again for images in (self.images, self.train) if images is not None for again in images.read_again()]

    def shard_files(self, observation: Observation) -> list[ShardFile]:
        """Return the shards of an observation; the name of a file says everything that decides what is in it."""
        if observation not in self._shard_files:
            total = self.split.extent(observation)
            folder = self._names.folder(observation)
            sizes = (total, self.population, self.batch_size, self.images.shape)
            self._shard_files[observation] = [
                ShardFile(start, stop, f"{folder}/{start:07d}-{stop:07d}.safetensors")
                for start, stop in spans(observation, *sizes, self._cuts)
            ]
        return self._shard_files[observation]

    def make(self, observation: Observation, shard: ShardFile) -> None:
        """Observe one shard unless it is stored; what the observation reads must have been observed."""
        if not self._store.exists(shard.file):
            self._written[shard.file] = self._rows_of(observation).take(shard, self._make(observation, shard))

    def take(self, observation: Observation, tensors: dict[str, Tensor]) -> None:
        """Take over what was observed elsewhere, by sessions of what this encoder is made of."""
        self._tensors[observation.key()] = tensors

    def _rows_of(self, observation: Observation) -> Rows:
        kept = not observation.in_files
        return self._rows.setdefault(observation, Rows(self.split.extent(observation), kept=kept))

    def observe(self, observation: Observation) -> None:
        """Put together what was observed of all images, unless that is done.

        Shards that this session has made are in memory, others in the run folder; those that do not fit are made again.
        """
        if observation in self.costs:
            return

        # Each shard from memory or its file, or made again
        rows = self._rows_of(observation)
        passes, seconds = Passes(), 0.0
        columns = None
        for shard in self.shard_files(observation):
            written = self._written.pop(shard.file, None)
            if written is None or columns not in (None, written.columns):
                results = self._load_shard(shard)
                if results is None or not fits(results.tensors, observation, shard, columns):
                    self.remade += self._store.exists(shard.file)
                    results = self._make(observation, shard)
                    if not fits(results.tensors, observation, shard, columns):
                        raise unlike(observation, shard)
                written = rows.take(shard, results)
            columns = written.columns
            passes, seconds = passes + written.passes, seconds + written.seconds

        # All shards as one, and what they cost
        if observation.in_files:
            self._files[observation.key()] = self.shard_files(observation)
        else:
            self._tensors[observation.key()] = rows.tensors()
        del self._rows[observation]
        predicted = observation.passes_of(self.encoder) * self.split.extent(observation)
        self.costs[observation] = Cost(passes, predicted, seconds)

    def _load_shard(self, shard: ShardFile) -> ShardResults | None:
        """Return what is stored of a shard; None where it is missing or damaged."""
        if (stored := self._store.read_tensors(shard.file)) is None:
            return None
        tensors, facts = stored
        passes = Passes(*(int(facts[name]) for name in ("forward", "backward", "bounds")))
        return ShardResults(tensors, passes, float(facts["seconds"]))

    def bank(self, threat: Threat | None = None) -> Bank:
        """Return the representations of the training images, and their labels; chunks are read when asked for."""
        labels = self._training.labels
        if labels is None:
            raise no_labels("probes", str(self._training))
        observation = training(threat)
        if threat is None and self.train is None:
            reps = self.read(CLEAN)["reps"][self.split.reserved :]
            return Bank(labels, lambda: iter([reps]))
        files = self._files.get(observation)
        if files is None:
            raise not_observed(observation)
        return Bank(labels, lambda: (self._require_shard(shard)["reps"] for shard in files))

    def _require_shard(self, shard: ShardFile) -> dict[str, Tensor]:
        """Return what a shard holds that was complete when it was observed."""
        if (stored := self._load_shard(shard)) is None:
            raise BadData(f"the file {shard.file!r} is gone or damaged since it was written; run the audit again")
        return stored.tensors

    def _read_by_shard(self, observation: Observation, start: int, stop: int) -> dict[str, Tensor]:
        """Return what an observation saw; of one that stays in files, of images `start` to `stop` (exclusive)."""
        files = self._files.get(observation.key())
        if files is None:
            return self.read(observation)
        rows = []
        for shard in files:
            if shard.start < stop and start < shard.stop:
                kept = self._require_shard(shard)
                rows.append({key: kept[key][max(start - shard.start, 0) : stop - shard.start] for key in kept})
        return join_rows(rows)

    def fit_probe(self, probe: Probe, threat: Threat | None = None, classes_apart: bool = False) -> Classifier:
        """Return what a probe learns from the training images; learned once."""
        key = probe, threat, classes_apart
        if key not in self._learned:
            self._learned[key] = classifier_of(self, *key)
        return self._learned[key]

    def head(self, probe: LinearProbe, threat: Threat | None = None, classes_apart: bool = False) -> Head:
        """Return the linear head that a probe learns; see `fit_probe`."""
        head = self.fit_probe(probe, threat, classes_apart)
        assert isinstance(head, Head)  # so says LinearProbe
        return head

    def read(self, observation: Observation) -> dict[str, Tensor]:
        """Return what an observation saw, all shards together; only its own number of images."""
        tensors = self._tensors.get(observation.key())
        if tensors is None:
            raise not_observed(observation)
        if observation.scope.at_once:
            return tensors
        rows = observation.images(len(self.images), self.attacked)
        return {key: value if key.startswith("gallery.") else value[:rows] for key, value in tensors.items()}

    def refusal(self, observation: Observation) -> str:
        """Return why nothing could be proved in an observation; "" where something was."""
        return self.refusals.get(observation.key(), "")

    def rely_on(self, observations: Iterable[Observation]) -> None:
        """Say what the measures observe: what searches met there counts for every failure, see `collect_points`."""
        self._relied_on = tuple(observations)

    def collect_points(self, ball: Ball) -> list[Float[Tensor, "images points dim"]]:
        """Return what the searches of all measures met inside a ball, in float64; where outside, the clean image."""
        clean, points = self.read(CLEAN)["reps"], []
        for observation in self._relied_on:
            if observation.key() in self._tensors:
                reps = observation.collect_points(ball, self.read(observation))
                if reps is not None:
                    points.append(torch.where(reps.isnan(), clean[: len(reps), None], reps).double())
        return points

    def broke(self, failure: Failure, ball: Ball) -> Bool[Tensor, "attacked"]:
        """Return which of the attacked images failed anywhere inside a ball."""
        broken = torch.zeros(self.attacked, dtype=torch.bool)
        event = failure.bind(self.shard(self.attacked))
        for points in self.collect_points(ball):
            for point in points.unbind(1):  # all at once would take as much memory as all pairs of images do, each
                broken[: len(point)] |= (event(point[:, None], torch.arange(len(point))) > 0).squeeze(1).cpu()
        for observation in self._relied_on:
            if observation.key() in self._tensors:
                failed = observation.broke(failure, ball, self.read(observation))
                if failed is not None:
                    broken[: len(failed)] |= failed
        return broken

    def shard(self, count: int) -> Shard:
        """Return what is known of the first images, without their pixels: `x` is the first one, over and over."""
        shard = self._shard(CLEAN, 0, 1)
        rng = Rng(self.seed, ids=tuple(self.ids[:count]))
        return replace(shard, x=shard.x.cpu().expand(count, -1, -1, -1), positions=torch.arange(count), rng=rng)

    def run(self, observation: Observation, start: int, stop: int) -> dict[str, Tensor]:
        """Observe some images, and store nothing; the training images of one file batch by batch."""

        def run(start: int, stop: int) -> dict[str, Tensor]:
            shard = self._shard(observation, start, stop)
            for ball in balls_of(observation):
                require_one_ball(ball, image_shape(shard.x))
            # of the clean representations only its own: to add up all of them for each shard takes a square of time
            own = None if shard.clean is None else shard.clean[start:stop]
            with (
                # what computes beside the encoder, too, whose searches may round
                use_precision("float32", shard.x.device),
                forbid_mutation("an attack, or another part that runs here,", shard.x, own, large=shard.clean),
            ):
                return observation.run(shard)

        size = self.batch_size if observation.scope is Scope.TRAINING else max(1, stop - start)
        starts = range(start, max(stop, start + 1), size)  # of no image too: it says what it lacks
        with self.follow_passes(), reading():
            return join_rows([self._memory.run(observation, at, min(at + size, stop), run) for at in starts])

    @contextmanager
    def follow_passes(self) -> Iterator[None]:
        """Tell of passes while they are made."""
        self.encoder.watch = self._progress
        try:
            yield
        finally:
            self.encoder.watch = None

    def _make(self, observation: Observation, shard: ShardFile) -> ShardResults:
        """Observe one shard and store it."""
        refuse_outside(self._surrogates(observation.surrogate), observation)
        # Observe, and count the passes; adaptive searches may spare some of those that were predicted
        began, before = time.perf_counter(), self.encoder.passes
        results = self.run(observation, shard.start, shard.stop)
        self._surrogates(observation.surrogate).check_unchanged()
        passes = self.encoder.passes - before
        predicted = observation.passes_of(self.encoder) * (shard.stop - shard.start)
        if (spared := predicted.work - passes.work) > 0:
            self._progress(spared)

        # Store, in the order in which files are read
        tensors = {key: results[key].detach().cpu().contiguous() for key in sorted(results)}
        if not fits(tensors, observation, shard, None):
            raise unlike(observation, shard)
        seconds = f"{time.perf_counter() - began:.3f}"
        facts = {key: str(value) for key, value in asdict(passes).items()}
        self._store.write_tensors(shard.file, tensors, facts | {"seconds": seconds})
        return ShardResults(tensors, passes, float(seconds))

    def _shard(self, observation: Observation, start: int, stop: int) -> Shard:
        """Return what an observation is given of its images `start` to `stop` (exclusive)."""
        match observation.scope:
            case Scope.ALL_TRAINING:
                return self._whole_training(stop)
            case Scope.SYNTHETIC:
                x, rows = self._all.batch(0, 1), torch.arange(start, stop)
                return Shard(self.encoder, x, rows, Rng(self.seed), None, self._all.at, read=self.read)
            case Scope.TRAINING:  # what there is to know about images is known of the population's only
                images = self._training
                return Shard(self.encoder, *self._between(images, start, stop), None, under=images.disturb)
            case Scope.FIRST | Scope.LAST:
                clean, labels = self._tensors.get(CLEAN, {}).get("reps"), self.labels
                head, images = None if labels is None else self.head, self._all
                read = partial(self._read_by_shard, start=start, stop=stop)
                context = (clean, images.at, labels, head, read, images.disturb, self.relevance)
                encoder = self._surrogates(observation.surrogate)
                return Shard(encoder, *self._between(images, start, stop), *context)

    def _between(self, images: ImageRange, start: int, stop: int) -> tuple[Images, Positions, Rng]:
        """Return images `start` to `stop` (exclusive), where they stand, and random numbers bound to their ids."""
        rng = Rng(self.seed, ids=tuple(images.ids[start:stop]))
        return images.batch(start, stop), torch.arange(start, stop), rng

    def _whole_training(self, count: int) -> Shard:
        """Return a shard of the training images: the first one, for all may be too many, and the way to all of them."""
        if not count:
            raise NotEnough(
                "expected training images to learn from, got none: all images are attacked; give training images "
                "(--train) or attack fewer"
            )
        images, clean = self._training, self._tensors.get(CLEAN, {}).get("reps")
        labels = None if images.labels is None else images.labels[:count]
        rng = Rng(self.seed, ids=tuple(images.ids[:count]))
        context = (clean, images.at, labels, None, self.read, images.disturb)
        return Shard(self.encoder, images.batch(0, 1), torch.arange(1), rng, *context)


def refuse_outside(encoder: Encoder, observation: Observation) -> None:
    """Refuse what follows gradients, or reads the network inside, of an encoder that runs outside torch.

    Raises:
        HoldfastError: gradients that it has not.
        NotCertified: bounds, for which its operations would have to be known.
    """
    passes = observation.passes
    if encoder.differentiable:
        return
    if passes.bounds:
        raise NotCertified("it runs outside torch, where its operations are not known; nothing can be proved of it")
    if passes.backward:
        raise Unsupported(
            "it runs outside torch, and has no gradient to follow; ask by queries: --profile black_box, or --set "
            "'*.attack=square'"
        )


def not_observed(observation: Observation) -> Missing:
    """Return the error for an observation that is read and was not made."""
    return Missing(f"{registry.part_name(observation)} was not observed: it failed, or no measure names it first")


FEWEST = 2
"""Images that every class of the attacked images must have among those that are not attacked."""


def classifier_of(
    subject: Subject, probe: Probe, threat: Threat | None = None, classes_apart: bool = False
) -> Classifier:
    """Return what a probe learns from the representations of the training images, disturbed by a threat or not.

    Without training images of their own these are the images at positions >= `subject.attacked`, so that no image that
    is attacked, certified or tested was seen in training. A probe that does not train reads nothing.
    """
    labels = subject.labels
    if labels is None:
        raise no_labels("this measure", "the audit's source of images")
    if not probe.trains:
        return probe.fit(subject.read(CLEAN)["reps"], labels)

    # Every class that is tested needs images to learn from
    bank = subject.bank(threat)
    for label in [] if classes_apart else labels[: subject.attacked].unique().tolist():
        count = int((bank.labels == label).sum())
        if subject.has_training_set and count < 1:
            raise NotEnough(
                f"probes learn from the training images: expected some of each class of the tested images among these "
                f"{len(bank.labels)}, got none of class {label}; leave the class out, or give training images of it"
            )
        if not subject.has_training_set and count < FEWEST:
            raise NotEnough(
                f"probes learn from the images that are not attacked: expected at least {FEWEST} of each class among "
                f"these {len(bank.labels)} of {len(labels)}, got {count} of class {label}; give training images "
                "(--train), attack fewer images, use more, or a head from a file"
            )

    # Learned through the encoder, by an observation, or from representations
    if probe.through:
        return probe.build_classifier(subject.read(learning_of(probe, threat)))
    return probe.learn(bank)


def forget_stale(session: Session, plan: Plan, store: Store, recorded: bool) -> int | None:
    """Delete what other code of an encoder has stored behind the same weights.

    Returns:
        How many shards that were; None: there are some, and they belong to the record.
    """
    if not _is_stale(session, store):
        return 0
    if recorded:
        return None
    files = {shard.file for observation in (CLEAN, *plan.order) for shard in session.shard_files(observation)}
    stored = [file for file in files if store.exists(file)]
    for file in stored:
        store.delete(file)
    return len(stored)


def _is_stale(session: Session, store: Store) -> bool:
    """Whether the encoder no longer gives the first stored representations: its code has changed, its weights not."""
    for shard in session.shard_files(CLEAN):
        if (stored := store.read_tensors(shard.file)) is None:
            continue
        reps, before = stored[0]["reps"], session.encoder.passes
        with torch.no_grad():
            again = session.encoder(session.batch(shard.start, shard.start + min(2, len(reps)))).float().cpu()
        session.encoder.passes = before  # two passes that only a resumed audit makes
        return not is_unmoved(reps, again)
    return False
