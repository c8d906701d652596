"""What an audit is asked: by its command, in a plan file, in Python; a profile says the rest."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from holdfast.runtime.checked import Checked, Count, describe_value
from holdfast.runtime.errors import BadValue
from holdfast.runtime.option import Option

NORMS = ("linf", "l2", "patch")
"""Names of balls that are offered."""

_SPELLINGS = {"inf": "linf", "linfinity": "linf", "2": "l2", "2.0": "l2", "1": "l1", "1.0": "l1"}
"""How norms are written elsewhere, in NumPy and torch say."""


def spell_norm(norm: str | float) -> str:
    """Return a norm as parts are called: "l2" for 2, "L2" and "ℓ2", "linf" for inf, "L_inf" and "Linf"; others as is.

    Examples:
        >>> spell_norm(float("inf")), spell_norm("L2"), spell_norm("patch[share=0.05]")
        ('linf', 'l2', 'patch[share=0.05]')
    """
    if isinstance(norm, bool) or not isinstance(norm, (str, int, float)):
        raise BadValue(f"norm: expected a name such as linf or l2, or a number, got {describe_value(norm)}")
    name, bracket, fields = str(norm).partition("[")
    lower = name.strip().lower()
    word = lower.replace("ℓ", "l").replace("∞", "inf").replace("_", "").replace("-", "")
    usual = _SPELLINGS.get(word, word)
    return f"{usual if usual in ('linf', 'l2', 'l1') else lower}{bracket}{fields}"


# What several requests ask alike
Eps = Annotated[
    float | str | None,
    Option(
        "Radius in pixels of a [0, 1] image: 0.05 or 4/255.",
        default="the usual one for such images",
        hint='of several radii make several measures: {"name": "breakaway_risk", "each": {"ball.radius": [0.05, 0.1]}}',
    ),
]
Device = Annotated[Any, Option("cpu, cuda, cuda:1, mps.")]
Seed = Annotated[int, Option("Seed for everything random.", least=0)]
BatchSize = Annotated[Count | None, Option("Images per encoder pass.", default="by image size")]
SkipCorrupt = Annotated[bool, Option("Leave out unreadable files.")]
Calls = Annotated[
    int | None,
    Option("Calls to encoders that are services (http:), at most; what would need more is refused.", default="all"),
]


@dataclass(frozen=True, kw_only=True)
class AuditOptions(metaclass=Checked):
    """What can be asked of an audit, whatever its encoders and images are given as.

    What is `Any` here is text on the command line and in files, and may be an object in Python.
    """

    called: ClassVar[str] = "audit"

    train: Annotated[
        Any,
        Option("Labelled images to train probes on.", default="the images that are not attacked", offers="data"),
    ] = None
    train_images: Annotated[int | None, Option("How many training images.", default="all")] = None
    profile: Annotated[str, Option("Set of measures, see holdfast list profiles.", offers="profiles")] = "quick"
    budget: Annotated[
        str | float | None,
        Option("Time limit such as 2m or 1h; none: no limit.", default="the profile's; quick: 2m"),
    ] = None
    until: Annotated[
        str | None,
        Option("When to stop: '24 images', 'breaking_radius ± 10%'.", default="when all is done"),
    ] = None
    calls: Calls = None
    eps: Eps = None
    norm: Annotated[Any, Option("Norm of the ball: linf, l2 or patch.", default="linf", offers=NORMS)] = None
    measures: Annotated[
        Any,
        Option(
            "Compute this measure instead of the profile's: NAME or NAME[parameter=value,...]; repeatable.",
            flag="measure",
        ),
    ] = ()
    settings: Annotated[Any, Option("measure.parameter=value; * means all measures.", flag="set", key="set")] = ()
    surrogates: Annotated[
        Any,
        Option(
            "Encoder that an outsider attacks instead; each: all of this audit; repeatable. Adds its measures.",
            flag="surrogate",
            offers="encoders",
        ),
    ] = ()
    images: Annotated[
        int | None,
        Option("Number of images: the population that attacked images are compared with.", default="the profile's"),
    ] = None
    attacked: Annotated[int | None, Option("How many of them to attack.", default="the profile's")] = None
    device: Device = None
    seed: Seed = 0
    batch_size: BatchSize = None
    skip_corrupt: SkipCorrupt = False
    skip_duplicates: Annotated[bool, Option("Leave out duplicates.")] = False
    precision: Annotated[
        str,
        Option(
            "Precision of searches: float32, tf32, bf16, fp16; reported numbers are always float32.",
        ),
    ] = "float32"
    compiled: Annotated[bool, Option("Run the encoder through torch.compile.")] = False
    allow: Annotated[
        Any,
        Option("Accept numbers as they are although this check fails; repeatable.", offers="checks", metavar="CHECK"),
    ] = ()
    examined: Annotated[
        int | None,
        Option("Images on which the checks that cost passes are made.", default="the profile's", command=False),
    ] = None
    queries: Annotated[
        int | None,
        Option("Of the gradient-free attack among the checks, for each image.", default="the profile's", command=False),
    ] = None
    shared_searches: Annotated[
        bool | None,
        Option(
            "Whether what any search met in a ball counts for every measure of that ball.",
            default="the profile's",
            command=False,
        ),
    ] = None

    @staticmethod
    def explain_unknown(key: str, value: object) -> str:
        """Return where a parameter of measures belongs that was asked of the audit; "" for one that is none."""
        from holdfast.config.misplaced import explain_misplaced  # which looks into parts

        return explain_misplaced(key, value)


@dataclass(frozen=True)
class AuditRequest(AuditOptions):
    """What an audit is asked in text: encoders and images by their specs, measures by names or tables."""

    encoders: Annotated[
        tuple[str, ...],
        Option("Encoder specs (holdfast list encoders), or one plan.toml.", offers="encoders", argument=True),
    ]
    data: Annotated[
        str | None,
        Option("Images: a folder, a file or a spec (holdfast list data); synbench needs none.", offers="data"),
    ] = None
    _: KW_ONLY
    train: str | None = None
    measures: tuple[Any, ...] = ()
    settings: tuple[str, ...] = ()
    surrogates: tuple[str, ...] = ()
    device: str = "cpu"
    allow: tuple[str, ...] = ()
