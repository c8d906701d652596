"""What a hardening is asked: by its command, and in Python."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from holdfast.auditing.request import NORMS, Device, Eps, Seed
from holdfast.runtime.checked import Checked, Count, Positive
from holdfast.runtime.option import Option


@dataclass(frozen=True, kw_only=True)
class HardenOptions(metaclass=Checked):
    """What can be asked of a hardening, whatever its encoder and images are given as.

    What is `Any` here is text on the command line, and may be an object in Python.
    """

    called: ClassVar[str] = "harden"

    objective: Annotated[
        str,
        Option(
            "auto (its own representations), fare, tecoa[path=FILE], or see holdfast list methods.", offers="methods"
        ),
    ] = "auto"
    budget: Annotated[str | float, Option("Time for training, such as 90s, 30m or 2h; the audits come on top.")] = "30m"
    steps: Annotated[int | None, Option("Steps of the training, instead of a budget.")] = None
    eps: Eps = None
    norm: Annotated[Any, Option("Norm of the ball: linf, l2 or patch.", offers=NORMS)] = "linf"
    attack: Annotated[
        str | None,
        Option("What the adversary maximises: untargeted, targeted or loss.", default="as the objective has it"),
    ] = None
    attack_steps: Annotated[int, Option("Steps of the attack, each of which costs two passes.")] = 3
    attack_step: Annotated[
        float | None,
        Option("Length of such a step, in the norm of the ball.", default="eps/2; from 6 steps on 2.5 eps/steps"),
    ] = None
    certified: Annotated[
        str | None,
        Option("Learns from a proved bound in place of attacks: crown_ibp or interval.", offers="certifiers"),
    ] = None
    views: Annotated[str | None, Option("Augmentation: none, light or full.", default="as the objective has it")] = None
    rate: Annotated[
        Positive | None,
        Option(
            "Learning rate, in units of each weight's size.",
            default="tried on a few steps",
            hint="leave it out to try some",
        ),
    ] = None
    batch_size: Annotated[int, Option("Images per step.")] = 64
    batchnorm: Annotated[str, Option("Whose statistics attacked images share: shared, split or frozen.")] = "shared"
    patience: Annotated[
        int | None,
        Option(
            "Looks in a row, of 100 steps each, without a larger breaking radius after which the training ends.",
            default="it goes to its end",
        ),
    ] = None
    ema: Annotated[
        float | None,
        Option("Decay of a running mean of the weights, which is then what comes out.", default="the weights"),
    ] = None
    clip: Annotated[float | None, Option("Largest norm of the gradient.", default="any")] = None
    precision: Annotated[str, Option("Mixed precision: no, bf16 or fp16.")] = "no"
    track: Annotated[tuple[str, ...], Option("Experiment trackers: tensorboard, mlflow, trackio.")] = ()
    freeze: Annotated[
        tuple[str, ...],
        Option("Layers or weights that stay as they are, by name or pattern, such as 'layer1.*'; repeatable."),
    ] = ()
    lora: Annotated[
        tuple[str, ...],
        Option("Layers whose low-rank adapters learn instead of all weights, by name, such as qkv; repeatable."),
    ] = ()
    lora_rank: Annotated[Count, Option("Rank of these adapters.")] = 8
    test: Annotated[Any, Option("Images of the audits.", default="some of the data, held out", offers="data")] = None
    train: Annotated[
        Any, Option("Labelled images for the kNN accuracy before and after.", default="the data", offers="data")
    ] = None
    head: Annotated[
        Any, Option("A linear head in use (.safetensors, .onnx); reports its accuracy before and after.")
    ] = None
    profile: Annotated[str, Option("Profile of the audits, see holdfast list profiles.", offers="profiles")] = (
        "hardening"
    )
    device: Device = None
    seed: Seed = 0


@dataclass(frozen=True)
class HardenRequest(HardenOptions):
    """What a hardening is asked in text: the encoder and images by their specs."""

    encoder: Annotated[
        str,
        Option("Encoder spec, see holdfast list encoders; it is not changed.", offers="encoders", argument=True),
    ]
    data: Annotated[str, Option("Images to learn from; labels are not needed.", offers="data")]
    _: KW_ONLY
    test: str | None = None
    train: str | None = None
    head: str | None = None
    device: str = "cpu"
