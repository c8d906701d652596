"""The encoder under audit: a frozen network with its normalisation inside, whose passes are counted."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from holdfast.core.compiled import compile_graph
from holdfast.core.geometry import Geometry
from holdfast.core.grid import Grid
from holdfast.core.normalisation import Normalisation
from holdfast.core.precision import call_with_gradient, check_precision, needs_care, use_precision
from holdfast.core.randomness import MeanOfDraws, draw_seeds
from holdfast.core.representation import as_its_weights, representations
from holdfast.core.straight_through import straight_through as pass_straight_through
from holdfast.core.unused import Unused
from holdfast.numerics.shapes import Images, Reps
from holdfast.runtime.checked import Count, fitting
from holdfast.runtime.errors import Failed, HoldfastError, Mismatch, Missing, Unsupported
from holdfast.runtime.foreign import bits, foreign
from holdfast.runtime.network import add_tensors, freeze, tensors_of, unwrap

BOUND = 200
"""Passes that take about as long as one bound propagation does (small convolutional networks, one core)."""


@dataclass
class Passes:
    """Encoder passes, counted in images: one forward pass of a batch of 64 counts 64.

    Attributes:
        forward: passes forward.
        backward: passes backward to the pixels; in fine-tuning to the weights.
        bounds: bound propagations of certifiers, counted in images × radii; they make no encoder pass.
    """

    forward: int = 0
    backward: int = 0
    bounds: int = 0

    def __add__(self, addend: "Passes") -> "Passes":
        return Passes(self.forward + addend.forward, self.backward + addend.backward, self.bounds + addend.bounds)

    def __sub__(self, addend: "Passes") -> "Passes":
        return Passes(self.forward - addend.forward, self.backward - addend.backward, self.bounds - addend.bounds)

    def __mul__(self, images: int) -> "Passes":
        return Passes(self.forward * images, self.backward * images, self.bounds * images)

    def of_draws(self, draws: int | None) -> "Passes":
        """Return those of an encoder that is the mean over draws, each of which is a pass; None: it has none."""
        return self if draws is None else Passes(self.forward * draws, self.backward * draws, self.bounds)

    @property
    def total(self) -> int:
        """Forward and backward passes together."""
        return self.forward + self.backward

    @property
    def work(self) -> int:
        """About how many passes all of it is worth; for progress bars."""
        return self.total + BOUND * self.bounds


class Encoder(nn.Module):
    """A frozen network f: [0, 1]^(C x H x W) -> R^D with its normalisation inside.

    f(x) = module((x - mean) / std), in eval mode, no parameter requiring a gradient, so every radius is in
    pixels. Passes are counted in `passes`; `watch`, where set, is called with the work of all that is added to them.

    A pass without a gradient to the pixels is float32 as IEEE has it (on CUDA too, where torch would allow TF32).
    Passes with one, of which searches are made, run in `precision`, see `prepare`.

    A network that draws random numbers becomes an encoder by `draws`: f(x) = (1/k) Σ_j module(x, ω_j). Its own k draws
    ω_j follow from the seed of the run and are the same in every pass and for every image, so results repeat and depend
    on no batch. An attack sees other draws, fresh ones in each pass (expectation over transformation), and is judged by
    the encoder's own. Each draw is a pass.

    Args:
        module: maps normalised images [B, C, H, W] to representations [B, D].
        mean: what the module's preprocessing subtracts, in [0, 1] pixels: one number, or one per channel (0 for none).
        std: the standard deviation that it divides by, the same (1 for none).
        geometry: how pictures become input pixels; needed for folders of pictures, not for arrays that fit.
        name: how the encoder is called in tables and reports.
        origin: facts for the record: source, weights, layer, pooling, where mean and std were taken from.
        root: dotted name, inside the module, of the network whose weights a file of weights holds.
        grid: of a dense encoder, whose representations are the tokens of patches in a row: how they are arranged.
        draws: k, where the network draws random numbers; None: it draws none.
        straight_through: modules inside `root` without a useful gradient (rounding, JPEG), which count as the identity
            on the way back.

    Raises:
        HoldfastError: mean and std that are not finite, not positive (std), or of several different lengths; draws
            below 1, a module that is not there.

    Source: Athalye et al. (2018), "Synthesizing robust adversarial examples" (expectation over transformation).

    Example:
        >>> noisy = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
        >>> noisy[1].forward = lambda x: nn.functional.dropout(x, 0.5, training=True)  # random in eval mode, too
        >>> encoder, x = Encoder(noisy, mean=0, std=1, draws=8), torch.rand(3, 1, 2, 2)
        >>> bool((encoder(x)[:2] == encoder(x[:2])).all()), encoder.passes.forward
        (True, 40)
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        mean: float | Sequence[float],
        std: float | Sequence[float],
        geometry: Geometry | None = None,
        name: str = "encoder",
        origin: Mapping[str, object] | None = None,
        root: str = "",
        grid: Grid | None = None,
        draws: int | None = None,
        straight_through: Sequence[str] = (),
    ):
        super().__init__()
        # DataParallel and the like are not part of the network
        self.module = freeze(unwrap(module), name)
        self.normalisation = Normalisation(mean, std, name)
        self.mean, self.std = self.normalisation.means, self.normalisation.stds
        self.geometry = geometry
        self.name = name
        self.grid = grid
        self.origin = ({} if grid is None else {"patches": grid.in_words}) | dict(origin or {})
        self.root = root
        # How passes are counted and made
        self.passes = Passes()
        self.watch: Callable[[int], None] | None = None
        self.precision = "float32"
        self.compiled = False
        self.seed = 0
        self.draws: int | None = None
        self.straight_through: tuple[str, ...] = ()
        self.mean_of_draws = MeanOfDraws(self._output)
        self._graph: Callable[[Tensor], Any] | None = None
        self._plain = self._judged = False
        self._fingerprint: str | None = None
        self._bits: dict[str, int] = {}
        self._unused: Unused | HoldfastError | None = None
        self.eval()
        self.set_randomness(draws, straight_through)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was compiled: it belongs to this encoder's own network, a copy compiles anew."""
        return {**self.__dict__, "_graph": None, "_unused": None, "watch": None}

    def set_randomness(self, draws: int | None, straight_through: Sequence[str] = ()) -> "Encoder":
        """Say how many draws of its random numbers it is the mean of, and which steps have no gradient.

        Args:
            draws: see `Encoder`; None leaves it as it is.
            straight_through: see `Encoder`; these join what it has.

        Raises:
            HoldfastError: see `Encoder`.
        """
        # Both are checked before anything is changed
        draws = fitting(draws, Count | None, "Encoder.draws")
        several = (straight_through,) if isinstance(straight_through, str) else tuple(straight_through)
        names = fitting(several, tuple[str, ...], "Encoder.straight_through")
        for name in names:
            # Names are those inside the root, as in the file of its weights
            pass_straight_through(self.module.get_submodule(self.root), name)
        self.draws = self.draws if draws is None else draws
        self.straight_through = tuple(dict.fromkeys((*self.straight_through, *names)))
        if self.draws is not None:
            self.origin["draws"] = self.draws
        if self.straight_through:
            self.origin["straight_through"] = ", ".join(self.straight_through)
        self._fingerprint = None  # another function now
        return self

    def prepare(self, *, precision: str = "float32", compiled: bool = False, seed: int = 0) -> "Encoder":
        """Say how passes are made; the network and its fingerprint stay as they are.

        Args:
            precision: of passes with a gradient to the pixels: float32, tf32, bf16 or fp16; see `precision`.
            compiled: run the forward pass through torch.compile; certificates and attention maps read the network.
            seed: of the run, from which the encoder's own draws follow.

        Raises:
            HoldfastError: a precision that is not known, or that the device does not have; a randomised encoder that is
                to be compiled.
        """
        check_precision(precision, str(self.device))
        if compiled and self.draws is not None:
            raise Unsupported(
                f"encoder {self.name!r} is a mean over draws, which cannot be compiled; leave --compiled out"
            )
        self.precision, self.compiled, self.seed = precision, compiled, seed
        return self

    @property
    def rereads(self) -> bool:
        """Whether searches see other values than their results are judged by: in less precision, or of other draws."""
        return self.precision != "float32" or (self.draws is not None and not self._judged)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Make all passes in float32 by the encoder's own draws: for searches each pass of which decides something."""
        before = self.precision, self._judged  # put back, since one may be inside another
        self.precision, self._judged = "float32", True
        try:
            yield
        finally:
            self.precision, self._judged = before

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Make all passes in float32 by the network's own modules: for hooks on them and gradients to their outputs."""
        before, self._plain = self._plain, True
        try:
            # Around all of it, so that backward passes of the caller are float32, too
            with self.exactly(), use_precision("float32", self.device):
                yield
        finally:
            self._plain = before

    def keep_unused(self) -> None:
        """Keep the network as it is before its first pass, for `use_pristine_network`; what is kept already stays."""
        if self._unused is None:
            try:
                self._unused = Unused(self.module)
            except HoldfastError as error:  # what cannot be copied is said to whoever asks for it
                self._unused = error

    @contextmanager
    def use_pristine_network(self) -> Iterator[None]:
        """Make all passes by the network as it was before its first one: with the same weights, and no memory.

        Raises:
            HoldfastError: a network that could not be copied, or was not kept before (`keep_unused`).
        """
        if not isinstance(self._unused, Unused):
            missing = Missing(f"encoder {self.name!r}: expected a network kept before its first pass, got none")
            # The error of the time when it was to be kept, if there was one
            raise self._unused or missing
        used = self.module
        # Plainly: what was compiled is the used network's
        with self._unused.running() as network, self.plainly():
            self.module = network.to(self.device)
            try:
                yield
            finally:
                self.module = used

    @property
    def differentiable(self) -> bool:
        """Whether a gradient comes back to the pixels, as far as its modules say; what runs outside torch has none."""
        return all(getattr(module, "differentiable", True) for module in self.module.modules())

    @property
    def device(self) -> torch.device:
        """Where the encoder is."""
        return self.normalisation.mean.device

    def train(self, mode: bool = True) -> "Encoder":
        """Stay in eval mode: an audit must not move BatchNorm statistics or drop units."""
        return super().train(False)

    def forward(self, x: Images) -> Reps:
        """Map pixels in [0, 1], [B, C, H, W], to representations [B, D].

        Raises:
            HoldfastError: channels that do not fit, or an output that is no vector of real numbers for each image.
        """
        self._check_input(x)
        # One seed for each draw, the same for all images
        seeds = None if self.draws is None else draw_seeds(self.draws, self.seed, judged=self._judged)
        each = Passes(1, 1).of_draws(None if seeds is None else len(seeds))
        self.count(Passes(forward=each.forward * len(x)))
        # a pass with a gradient to the pixels counts its backward half when that runs
        search = torch.is_grad_enabled() and x.requires_grad
        if search:
            x = x.view_as(x)  # a fresh node: a hook on a leaf would stay and count twice
            x.register_hook(partial(self._came_back, Passes(backward=each.backward * len(x))))
        # float32 on a CPU needs no care; searches may run in less precision
        with foreign(f"encoder {self.name!r}", "run"):
            plain = self._plain or (self.precision == "float32" and not self.compiled and not needs_care(x.device))
            call = self._run_compiled if self.compiled and not plain else self._run_eager
            if seeds is not None:
                call = lambda x: representations(self.mean_of_draws(x, seeds), x, self.name)  # noqa: E731
            if plain:
                reps = call(x)
            elif search:
                # The backward pass must run in the same precision, so it is made in there as well
                reps = call_with_gradient(call, x, self.precision, self.name)
            else:
                # What is read out is float32 as IEEE has it, whatever the process allows
                with use_precision("float32", x.device):
                    reps = call(x)
        if self.grid is not None and reps.shape[1] != self.grid.size:
            raise Mismatch(
                f"encoder {self.name!r}: expected {self.grid.in_words} in a row, [{len(x)}, {self.grid.size}], got "
                f"{list(reps.shape)} of images {list(x.shape[1:])}; images of another size have another grid"
            )
        return reps

    def each_draw(self, x: Images, draws: int) -> Float[Tensor, "draws batch dim"]:
        """Return the representations of so many draws, the first ones its own, to see by how much they differ."""
        self.count(Passes(forward=len(x) * draws))
        seeds = draw_seeds(draws, self.seed, judged=True)
        with foreign(f"encoder {self.name!r}", "run"), use_precision("float32", x.device), torch.no_grad():
            # Judged: the encoder's own draws
            drawn = [self.mean_of_draws.draw(x, seed) for seed in seeds]
            return torch.stack([representations(output, x, self.name) for output in drawn])

    def _output(self, x: Tensor) -> Any:
        return self.module(as_its_weights(self.normalisation(x), self.module))

    def _run_eager(self, x: Tensor) -> Reps:
        return representations(self._output(x), x, self.name)

    def _run_compiled(self, x: Tensor) -> Reps:
        """Map pixels by what was compiled of the network."""
        if self._graph is None:
            # a lambda: tests wrap functions and methods to check shapes, which would be compiled as well
            n, kind = self.normalisation, as_its_weights(x, self.module).dtype
            call = lambda x: self.module((x.clone() if n.identity else (x - n.mean) / n.std).to(kind))  # noqa: E731
            self._graph = compile_graph(call, self.name)
        return representations(self._graph(x), x, self.name)

    def _check_input(self, x: Tensor) -> None:
        # Several means tell the number of channels; one holds for any, but the geometry may tell
        channels = len(self.mean) if len(self.mean) > 1 else (self.geometry.channels if self.geometry else None)
        if channels is not None and x.shape[1] != channels:
            # Pictures can be converted, means cannot be made up
            convert = f"add ?channels={channels} to the data spec to convert them"
            if len(self.mean) > 1:
                option = f", or {convert}" if channels == 3 else ""
                raise Mismatch(
                    f"encoder {self.name!r} has {channels} means and stds, one per channel, and the images have "
                    f"{x.shape[1]} (channels); give one number to mean= and to std=, or one per channel{option}"
                )
            raise Mismatch(f"encoder {self.name!r} takes {channels} channels; the images have {x.shape[1]}; {convert}")

    def _came_back(self, passes: Passes, gradient: Tensor | None) -> None:
        if gradient is None:  # of a step that is not differentiable, a quantised layer for one
            raise Unsupported(
                f"encoder {self.name!r}: expected a gradient with respect to the pixels, got none (a step of it has "
                "no derivative); use a gradient-free attack: --set '*.attack=square'"
            )
        self.count(passes)

    def count(self, passes: Passes) -> None:
        """Add to `passes` what was done with this encoder."""
        # A new object: whoever has read `passes` before keeps what it was
        self.passes += passes
        if self.watch is not None:
            self.watch(passes.work)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (first 16 hex digits) of weights, buffers, normalisation and draws, when first asked for."""
        return self._fingerprint or self.refresh_fingerprint()

    def refresh_fingerprint(self) -> str:
        """Take the fingerprint anew: an encoder may have been trained since it was last asked for."""
        self._fingerprint, self._bits = self.take_fingerprint(), self._take_bits()
        return self._fingerprint

    def check_unchanged(self) -> None:
        """Compare weights and buffers with those of the fingerprint; much cheaper than to take it anew.

        Raises:
            HoldfastError: passes have changed some: what was observed belongs to no one network.
        """
        # A tensor that the fingerprint never saw, such as a cache, is no change
        if changed := [name for name, value in self._take_bits().items() if self._bits.get(name, value) != value]:
            names = ", ".join(name.removeprefix("network.") for name in changed[:3])
            raise Failed(
                f"encoder {self.name!r} changes its own weights or buffers when it is run ({names}); "
                "expected a network that stays as it is: make such updates only where self.training is true"
            )

    def _take_bits(self) -> dict[str, int]:
        return {name: bits(value) for name, value in tensors_of(self.module)}

    def take_fingerprint(self) -> str:
        """Return the fingerprint of the weights and buffers as they are now."""
        # Normalisation decides what is computed as weights do
        digest = hashlib.sha256(repr((self.mean, self.std)).encode())
        # Only where there are any: encoders without draws keep the fingerprints that records have
        if self.draws is not None or self.straight_through:
            digest.update(repr((self.draws, self.straight_through)).encode())
        add_tensors(digest, self.module)
        return digest.hexdigest()[:16]
