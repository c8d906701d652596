"""The one training loop: any method, with or without an adversary, in one process or several; it resumes exactly."""

import contextlib
import hashlib
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
import torch
from torch import Tensor, nn

from holdfast.core import Ball, Batch, Encoder, Facts, Images, Rng, StepResult, Student, View, registry
from holdfast.runtime.distributed import gather, processes, rank
from holdfast.runtime.errors import Failed, NotFinite
from holdfast.runtime.listener import Listener, Silent
from holdfast.runtime.waiting import move_to
from holdfast.sources.encoders import find_weights_suffix, open_encoder, write
from holdfast.sources.encoders.shared.copies import save, with_weights
from holdfast.sources.encoders.shared.weights import fix_seed
from holdfast.storage.coarseness import Comparison
from holdfast.storage.entry import as_json
from holdfast.storage.run_folder import Store, files_read
from holdfast.training import accelerator as engines
from holdfast.training import checkpoint
from holdfast.training.batchnorm import unwrap_batchnorm, wrap_batchnorm
from holdfast.training.coarseness import IMAGES, SLOWER, judge, refine
from holdfast.training.fit import check, check_reopens, width
from holdfast.training.images import TrainingImages
from holdfast.training.learner import learner
from holdfast.training.log import Log
from holdfast.training.lora import check_adapters, merge
from holdfast.training.pace import Pace
from holdfast.training.recipe import Recipe, entry

SAVE_FIRST, SAVE_EVERY, SAVE_COST = 2.0, 60.0, 20.0
"""Seconds to the first checkpoint and, once the training has run as long, between later ones; before that, as many as
it has run so far, and at least so many times what the last one took."""

COLLAPSED, PATIENCE = 1e-3, 20
"""Spread of representations below which, for so many steps, a training has collapsed."""

PUSHING_APART = ("simclr", "barlow_twins", "vicreg")
"""Methods whose loss is large where all images have one representation."""


@runtime_checkable
class Monitor(Protocol):
    """Looks at the encoder along the training."""

    every: int

    def __call__(self, encoder: Encoder, step: int) -> dict[str, float]:
        """Return named numbers for the log; the encoder is frozen, and must be left as it is."""
        ...


class Keeper(Monitor, Protocol):
    """A monitor that chooses which of the encoders that it has seen comes out."""

    @property
    def is_over(self) -> bool:
        """Whether nothing better is to be expected: the training ends."""
        ...

    def choose(self, last: Encoder) -> Encoder:
        """Return the encoder that comes out, instead of that of the last step."""
        ...


@dataclass(frozen=True)
class Trained:
    """What came out of a training.

    Attributes:
        encoder: the encoder, frozen.
        spec: how it is opened again.
        steps: of the optimiser.
        resumed: steps that an earlier run had made.
        rows: the log, one row per step.
        comparisons: of its attack with a finer one.
        pace: how far each step brought it, and the time that its steps took.
        weights: how many weights were trained of how many; "" where all were.
    """

    encoder: Encoder
    spec: str
    steps: int
    resumed: int
    rows: list[dict[str, float]]
    comparisons: list[Comparison]
    pace: Pace
    weights: str


def train(
    recipe: Recipe,
    folder: Path,
    *,
    encoder: Encoder | None = None,
    images: TrainingImages | None = None,
    monitors: tuple[Monitor, ...] = (),
    keeper: Keeper | None = None,
    track: Sequence[str] = (),
    pace: Pace | None = None,
    opens: str | None = None,
    listener: Listener | None = None,
    command: str = "",
) -> Trained:
    """Train an encoder; interrupted, the same call goes on and comes to the same weights; done, it says so at once.

    The folder holds `encoder.safetensors`, what came out, and `encoder.onnx`, where it was opened from such a file;
    `recipe.json`; `log.parquet`, a row for every step; `snapshots/`, where asked for; and `checkpoint.pt`.

    Args:
        recipe: what to do.
        folder: the run folder.
        encoder: one that is open already, instead of the recipe's.
        opens: the spec that opened `encoder`; None: it lives in memory alone.
        images: those that are open already, instead of the recipe's.
        monitors: look at the encoder along the way.
        keeper: a monitor that chooses which encoder comes out; None: that of the last step.
        track: trackers that get the log as well: "tensorboard", "mlflow", "trackio".
        pace: a budget, or that of a training that followed one, instead of the recipe's steps or epochs.
        listener: told about progress.
        command: how to do it again, for the record.
    """
    start = encoder or open_encoder(recipe.encoder)
    spec = opens if encoder else recipe.encoder
    heard = listener or Silent()
    return _Training(recipe, Store(folder), start, spec, images, monitors, keeper, track, pace, heard, command).run()


class _Training:
    def __init__(
        self,
        recipe: Recipe,
        store: Store,
        start: Encoder,
        opens: str | None,
        images: TrainingImages | None,
        monitors: tuple[Monitor, ...],
        keeper: Keeper | None,
        track: Sequence[str],
        pace: Pace | None,
        listener: Listener,
        command: str,
    ):
        self.recipe, self.store, self.listener = recipe, store, listener
        self.monitors, self.keeper = (*monitors, *([keeper] if keeper else [])), keeper
        self.path = store.folder / "encoder.safetensors"
        self.opens, self.spec = opens, with_weights(opens or recipe.encoder, self.path)
        self.accelerator = engines.engine(recipe, track, store.folder)
        # the images, and how long the training takes
        self.images = images or TrainingImages(
            recipe.data,
            geometry=start.geometry,
            images=recipe.images,
            seed=recipe.seed,
            device=self.accelerator.device,
            corruption=recipe.corruption if recipe.corrupt == "before" else None,
        )
        self.per_epoch = len(self.images) // recipe.batch_size
        self.replays = recipe.adversary.free if recipe.adversary else 1
        self.pace = pace or Pace(recipe.steps or recipe.epochs * max(1, self.per_epoch) * self.replays)
        check(recipe, self.images)
        classes = self.images.classes
        # the student: the encoder and the heads of the method, checked before the first step
        self.learner = learner(start, recipe)
        encoder = self.learner.encoder
        # Two images through the network tell how wide the heads must be
        few = self.images.batch(torch.arange(2)).cpu()
        number, shape = len(classes) if classes else None, (few.shape[1], few.shape[2], few.shape[3])
        if recipe.lora is not None:
            check_adapters(encoder, few)
        facts = Facts(width(encoder, self.images), len(self.images), number, shape)
        # The seed alone decides how heads begin, whatever was drawn before
        with fix_seed(_number(recipe.seed, "heads")):
            wrapped = wrap_batchnorm(encoder, recipe.batchnorm, self.learner.still)
            student = recipe.method.student(wrapped, facts)
        recipe.views.check(start, start.name, few, many=student.many)
        check_reopens(start, merge(unwrap_batchnorm(student.encoder)), opens, few, store)
        self.tracing = recipe.certified and recipe.certified.prepare(student, few)
        if processes() > 1:
            self._leave_out(student)
        # what accelerate wraps, and what a checkpoint holds
        student.train()
        optimiser = recipe.optimiser.build(student, self.learner.units)
        self.model, self.optimiser = self.accelerator.prepare(student, optimiser)
        self.student: Student = self.accelerator.unwrap_model(self.model)
        self.ema_model = engines.running_mean(self.student.encoder.module, recipe.ema)
        # The unwrapped student: its tensors have the same names in one process and in several
        self.held = nn.ModuleDict({"student": self.student} | ({"ema": self.ema_model} if self.ema_model else {}))
        settings, learned = entry(recipe), self.images.images
        # everything that decides the outcome: a checkpoint is taken up only where it is the same
        begun = {"weights": start.refresh_fingerprint(), "images": learned.fingerprint}
        begun |= {"labels": learned.labels_fingerprint, "files": files_read(settings) + recipe.method.fingerprints()}
        self.settings = {**settings, **self.pace.decides, "begun_from": begun}
        self.command, self.rng = command, Rng(recipe.seed, ("training",))
        self.step, self.log, self._order, self._flat, self._between_steps = 0, Log(), (-1, torch.empty(0)), 0, True
        self._stopped = False
        self._heard = 0  # how far the listener knows the training to be
        self.adversary, self._comparisons = recipe.adversary, list[Comparison]()
        self._attacked: dict[int, list[Images]] = {}  # part of the batch -> what the step before attacked it with

    def _leave_out(self, student: Student) -> None:
        """Freeze weights that the loss does not reach, such as layers behind the representation.

        Processes that train together would wait for their gradients.
        """
        few = torch.arange(self.recipe.batch_size // self.recipe.accumulate // processes())
        x, device = self.images.batch(few), self.accelerator.device
        gathered = few.repeat(processes())  # each process's part is gathered
        labels = None if self.images.labels is None else self.images.labels[gathered].to(device)
        # The image stands for all views and for the attacked one: only whether a gradient comes is asked
        self._outcome(
            student.to(device).eval(), [x] * student.views, [x], Batch(gathered.to(device), labels)
        ).loss.backward()
        # Which weights a loss reads depends on the method and the layer; their gradients tell
        for value in student.parameters():
            value.requires_grad_(value.requires_grad and value.grad is not None)
        student.zero_grad()

    def run(self) -> Trained:
        """Train to the end, from the checkpoint where there is one."""
        # Whatever decides the weights is in the digest: the checkpoint of other settings is refused
        digest = hashlib.sha256(json.dumps(self.settings, sort_keys=True).encode()).hexdigest()[:16]
        # from the checkpoint, where there is one of the same training
        if kept := checkpoint.read(self.store.folder, digest):
            checkpoint.restore(self.held, kept["tensors"])
            self.optimiser.load_state_dict(kept["optimiser"])
            if self.accelerator.scaler is not None and kept["scaler"]:
                self.accelerator.scaler.load_state_dict(kept["scaler"])
            self.step, self._flat, self.log = kept["step"], kept["flat"], Log(kept["log"])
            self._comparisons = msgspec.convert(kept["comparisons"], list[Comparison])
            if self.adversary is not None:
                self.adversary = refine(self.adversary, self._mends)
            self.pace.go_on(kept.get("pace"))
        elif self.accelerator.is_main_process:
            self.store.write_json("recipe.json", self.settings | {"command": self.command})
        # train, saving from time to time, on an interrupt between two steps, and at the end
        resumed = self.step
        self.listener.begin(self.recipe.encoder, *self.pace.length)
        self._advance()
        self._ask_keeper()
        if not self._over:
            engines.begin(self.accelerator, self.settings, self.store.folder)
        with engines.interrupts() as heard:
            try:
                self._run_steps(digest, heard)
            except KeyboardInterrupt:
                if self._between_steps:  # inside a step some weights have moved and others have not
                    self._save(digest)
                raise
            finally:
                engines.end(self.accelerator)
        if not self._finite():
            raise NotFinite(
                f"training stopped after its last step, {self.step}: not finite: weights; "
                f"{self._describe_checkpoint()}; lower the rate, or clip the gradient (clip=1)"
            )
        self._save(digest)
        return self._finish(resumed)

    def _run_steps(self, digest: str, heard: list[int]) -> None:
        """Make all steps, and keep a checkpoint from time to time."""
        self.pace.go_on(None)  # the clock runs from here
        begun = saved = time.monotonic()
        cost = 0.0
        while not self._over:
            self._one_step()
            engines.tell(self.accelerator, self.log.rows[-1])
            self._advance()
            self.listener.stage(f"loss {self.log.rows[-1]['loss']:.4g}")
            # Within a replayed batch there is nothing to keep that goes on
            between = self.step % self.replays == 0 or self._over
            if engines.any_heard(self.accelerator, heard) and between:
                raise KeyboardInterrupt
            wait = min(SAVE_EVERY, max(SAVE_FIRST, saved - begun, SAVE_COST * cost))
            if (now := time.monotonic()) - saved > wait and self._save(digest):
                saved = time.monotonic()
                cost = saved - now

    def _advance(self) -> None:
        """Tell the listener how far it is."""
        done = self.pace.measure_progress(self.step)
        self.listener.advance(done - self._heard)
        self._heard = done

    def _seconds(self) -> float:
        """Return how long the step took; where the clock decides, by that of the first process for all of them."""
        own = self.pace.read()
        if self.pace.budget is None or processes() == 1:
            return own
        return float(gather(torch.tensor([own], dtype=torch.float64, device=self.accelerator.device))[0])

    @property
    def _over(self) -> bool:
        """Whether the training ends here: its pace says so, or its keeper."""
        return self._stopped or self.pace.over(self.step)

    def _ask_keeper(self) -> None:
        """Let all processes know whether the keeper, who looks in the main one, has seen enough."""
        if self.keeper is not None:
            done = torch.tensor([float(self.keeper.is_over)], device=self.accelerator.device)
            self._stopped = bool(gather(done).any())

    @property
    def _progress(self) -> float:
        return self.recipe.progress(self.pace.progress(self.step))

    def _one_step(self) -> None:
        recipe, self._between_steps = self.recipe, False
        # where this step stands: of a batch replayed for free adversarial training, in its epoch
        done, replay = divmod(self.step, self.replays)
        epoch, number = divmod(done, self.per_epoch)
        if replay == 0:  # a new batch begins undisturbed, see `Adversary.free`
            self._attacked.clear()
        if replay == number == 0:
            # Methods that cluster look at the images as the epoch before saw them
            self.student.begin_epoch(epoch, recipe.seed, lambda places: self._views(places.cpu(), epoch - 1))
        rate = recipe.optimiser.set_rate(self.optimiser, self._progress, SLOWER**self._mends)
        # gradients of the batch, part by part
        places = self._places(epoch)[number * recipe.batch_size : (number + 1) * recipe.batch_size]
        parts = places.chunk(recipe.accumulate)
        outcomes = []
        # By process too, for two processes must not drop the same units
        with engines.randomness(_number(recipe.seed, "step", self.step, rank()), self.accelerator.device):
            for last, part in enumerate(parts, 1 - len(parts)):  # `last` is 0 for the last part
                # Processes exchange gradients once in a step, with its last part
                apart = self.accelerator.no_sync(self.model) if last else contextlib.nullcontext()
                with apart:
                    outcome = self._learn(part, epoch)
                    self.accelerator.backward(outcome.loss / len(parts))  # the mean over the parts
                outcomes.append(StepResult(*(value.detach() for value in outcome)))
        # Undoes the scale of fp16 first, so it comes before the norm is judged; without a limit it only measures
        length = self.accelerator.clip_grad_norm_(self.student.parameters(), recipe.clip or float("inf"))
        means = [torch.stack(values).mean() for values in zip(*outcomes, strict=True)]
        *values, norm = torch.stack([*means, length]).tolist()  # the one time in a step that the host waits
        facts = dict(zip(StepResult._fields, values, strict=True))
        # Before the optimiser: weights that are no longer finite cannot be taken back
        self._judge(facts | {"gradient": norm})
        # the step, and all that follows the weights: twin, running mean, log, monitors
        self.optimiser.step()
        self.optimiser.zero_grad()
        self.step += 1
        self.pace.tick(self.step, self._seconds())
        self.student.after_step(self._progress)
        if self.ema_model is not None:
            self.ema_model.update_parameters(self.student.encoder.module)
        self.log.add(step=self.step, epoch=epoch + (number + 1) / self.per_epoch, rate=rate, gradient=norm, **facts)
        self._check_attack()
        self._look((number + 1, replay + 1) == (self.per_epoch, self.replays), epoch + 1)
        self._ask_keeper()
        self._between_steps = True

    @property
    def _mends(self) -> int:
        """How often the attack was made finer."""
        return sum(comparison.mended for comparison in self._comparisons)

    def _check_attack(self) -> None:
        """Compare the attack with a finer one, where it is time; go on with that where the attack is too coarse."""
        adversary = self.adversary
        if adversary is None or not adversary.check_every or self.step % adversary.check_every:
            return
        if not isinstance(adversary.threat, Ball) or self.pace.over(self.step):
            return
        # The images to come, which this epoch has not learned from
        epoch, number = divmod(self.step // self.replays, self.per_epoch)
        # Few of them, shared evenly by the processes
        few = max(IMAGES, self.recipe.method.least) // processes() * processes()
        begin = number * self.recipe.batch_size
        part = self._places(epoch)[begin : begin + min(few, self.recipe.batch_size // self.recipe.accumulate)]
        own = part.chunk(processes())[rank()]
        with engines.randomness(_number(self.recipe.seed, "check", self.step, rank()), self.accelerator.device):
            rng = self._rng(own, epoch).child("check", self.step)
            views, batch = self._views(own, epoch), self._batch(part, epoch)
            ratio = adversary.measure_coarseness(self.student, views, batch, rng)
        before = [comparison.ratio for comparison in self._comparisons if comparison.ratio is not None]
        comparison = judge(ratio, self.step, before, adversary, self._mends)
        self._comparisons.append(comparison)
        self.log.note({"coarseness": ratio})
        if comparison.mended:
            self.adversary = refine(adversary, 1)
            self.listener.stage(f"the attack had become too coarse at step {self.step}; going on with a finer one")

    def _batch(self, part: Tensor, epoch: int) -> Batch:
        """Return what is known of a part of a batch, of all processes together."""
        device, numbers = self.accelerator.device, self.images.labels
        labels = None if numbers is None else move_to(numbers[part], device)
        return Batch(move_to(part, device), labels, self._progress, epoch, self.images.classes)

    def _learn(self, part: Tensor, epoch: int) -> StepResult:
        """Return the loss of a part of a batch, of which this process holds its share."""
        # Shares are equal and in the order of the ranks, as `gather` puts them together again
        own = part.chunk(processes())[rank()]
        views, batch = self._views(own, epoch), self._batch(part, epoch)
        if (certified := self.recipe.certified) is not None and self.tracing is not None:
            # Asked first: what the frozen network makes of the view serves the loss, too
            bound = certified.bound(self.tracing, self.student, views[0], batch, self.rng.child("bound", self.step))
            plain = self.model(views, [], batch, certified.clean)
            return plain._replace(loss=plain.loss + certified.weight * bound, attacked=bound.detach())
        if self.adversary is None:
            return self._outcome(self.model, views, [], batch)
        # A part is known by its first image, which is the same whenever the batch is replayed
        rng, key = self._rng(own, epoch).child("adversary", self.step), int(part[0])
        try:
            attacked = self.adversary.disturb(self.student, views, batch, rng, self._attacked.get(key, ()))
        except NotFinite as error:  # the first to meet what the step before made of the weights
            raise self._not_finite("the objective of the attack, or its gradient") from error
        if self.replays > 1:
            self._attacked[key] = attacked
        # Through DistributedDataParallel where there is one, which exchanges the gradients
        return self._outcome(self.model, views, attacked, batch)

    def _outcome(self, model: nn.Module, views: list[View], attacked: list[Images], batch: Batch) -> StepResult:
        if (adversary := self.recipe.adversary) is None:
            return model(views, [], batch)
        further = adversary.further(views)
        return model(views, attacked, batch, adversary.clean, adversary.weight, further, adversary.rocl)

    def _rng(self, places: Tensor, epoch: int) -> Rng:
        """Return the random numbers of some images in an epoch."""
        return self.rng.at([self.images.ids[place] for place in places.tolist()]).child(epoch)

    def _views(self, places: Tensor, epoch: int) -> list[View]:
        """Return the views of some images in an epoch."""
        recipe, student = self.recipe, self.student
        x, rng = self.images.batch(places), self._rng(places, epoch)
        # Whole views, then small ones for methods that crop often
        views = [recipe.views(x, rng.child("view", view)) for view in range(1 if student.same_view else student.views)]
        if student.many:
            views += [recipe.views(x, rng.child("local", n), local=True) for n in range(recipe.views.local)]
        if recipe.corruption is not None and recipe.corrupt == "after":
            views = [recipe.corruption.sample(view, rng.child("corrupt", n)) for n, view in enumerate(views)]
        return views * student.views if student.same_view else views

    def _places(self, epoch: int) -> Tensor:
        """Return the order of the images in an epoch."""
        if self._order[0] != epoch:
            # Drawn by the number of the epoch, so that a training that goes on finds the same order
            generator = self.rng.child("order", epoch).generator()
            self._order = epoch, torch.randperm(len(self.images), generator=generator)
        return self._order[1]

    def _judge(self, facts: dict[str, float]) -> None:
        """Stop where there is nothing left to learn from."""
        bad = [name for name, value in facts.items() if not math.isfinite(value)]
        if self.recipe.precision == "fp16" and bad == ["gradient"]:
            bad = []  # the scaler leaves out such steps and lowers its scale
        if bad:
            raise self._not_finite(", ".join(bad))
        # One flat step may be a batch of images that are alike; many in a row are a collapse
        self._flat = self._flat + 1 if facts["spread"] < COLLAPSED else 0
        if self._flat >= PATIENCE:
            raise Failed(
                f"training stopped {self._moment}: collapsed: all images have one representation (relative spread "
                f"{facts['spread']:.1g} for {PATIENCE} steps); {self._describe_checkpoint()}; "
                f"{self._against_collapse()}"
            )

    @property
    def _moment(self) -> str:
        epoch = self.step // (self.per_epoch * self.replays) + 1
        return f"at step {self.step + 1} of {self.pace} (epoch {epoch})"

    def _not_finite(self, bad: str) -> NotFinite:
        """Return the error of a training in which something is not finite."""
        return NotFinite(
            f"training stopped {self._moment}: not finite: {bad}; {self._describe_checkpoint()}; lower the rate "
            f"({self.recipe.optimiser.rate:g}), clip the gradient (clip=1), or check the images and weights"
        )

    def _against_collapse(self) -> str:
        """Return what helps against a collapse."""
        if (different := self.images.images.different) < self.recipe.batch_size:
            return f"give images that differ (different pictures among the {len(self.images)}: {different})"
        apart = " or ".join(name for name in PUSHING_APART if name != registry.part_name(self.recipe.method))
        return f"lower the rate, strengthen the augmentations, or choose a method that pushes images apart ({apart})"

    def _describe_checkpoint(self) -> str:
        path = self.store.folder / checkpoint.NAME
        return f"the last good checkpoint is {str(path)!r}" if path.exists() else "no checkpoint had been kept yet"

    def _look(self, epoch_ends: bool, epochs: int) -> None:
        """Keep a snapshot and ask the monitors, where their time has come."""
        # The last step is looked at whatever the interval
        due = [monitor for monitor in self.monitors if self.step % monitor.every == 0 or self.pace.over(self.step)]
        snapshot = bool(self.recipe.snapshots) and epoch_ends and epochs % self.recipe.snapshots == 0
        if not (due or snapshot) or not self.accelerator.is_main_process:
            return
        encoder = self._encoder()
        for monitor in due:
            self.log.note(monitor(encoder, self.step))
        if snapshot:
            name = f"snapshots/epoch-{epochs:04d}.safetensors"
            self.store.write(name, lambda path: save(encoder, path, {"trained": f"{epochs} epochs"}))

    def _encoder(self) -> Encoder:
        """Return the encoder as it is now, frozen, with a network of its own."""
        averaged = self.ema_model.module if self.ema_model is not None else None
        return merge(unwrap_batchnorm(self.student.encoder, averaged))

    def _save(self, digest: str) -> bool:
        """Keep a checkpoint, unless the next step would refuse this state or goes on with the same attacked batch.

        Returns:
            whether it is kept, by the main process, which does it for all.
        """
        unfit = not self._over and (self._flat or self.step % self.replays)
        if not self.accelerator.is_main_process or unfit or not self._finite():
            return False
        scaler = self.accelerator.scaler
        facts = {"recipe": digest, "step": self.step, "flat": self._flat, "log": self.log.rows, "pace": self.pace.state}
        facts |= {"comparisons": as_json(self._comparisons)}
        facts |= {"optimiser": self.optimiser.state_dict(), "scaler": scaler.state_dict() if scaler else {}}
        checkpoint.write(self.store, self.held, facts)
        self.log.write(self.store)
        return True

    def _finite(self) -> bool:
        return all(bool(value.isfinite().all()) for value in self.held.parameters())

    def _finish(self, resumed: int) -> Trained:
        encoder, recipe, settings = self._encoder(), self.recipe, self.settings
        if self.keeper is not None and self.accelerator.is_main_process:  # the others have seen nothing
            encoder = self.keeper.choose(encoder)
        if self.pace.budget is not None:  # what the clock decided: enough to do the same again
            recipe = replace(recipe, steps=self.step)
            settings = {**settings, "steps": self.step, "marks": self.pace.marks}
            self.store.write_json("recipe.json", settings | {"command": self.command})
        about = {"trained": recipe.title, "recipe": json.dumps(settings)}
        if self.accelerator.is_main_process:
            self.store.write(self.path.name, lambda path: save(encoder, path, about))
            if (opens := self.opens) and (ends := find_weights_suffix(opens)):
                self.store.write(f"encoder{ends}", lambda path: write(opens, encoder, path))
        # The others may open the files at once, so they wait until the main process has written them
        self.accelerator.wait_for_everyone()
        return Trained(
            encoder, self.spec, self.step, resumed, self.log.rows, self._comparisons, self.pace, self.learner.in_words
        )


def _number(seed: int, *names: object) -> int:
    return Rng(seed, ("training", *map(str, names))).generator().initial_seed()
