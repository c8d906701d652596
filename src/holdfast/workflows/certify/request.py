"""What is asked about an image and others that it must not be nearer to: by a command, and in Python."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar

from holdfast.auditing.request import NORMS, Device, Seed
from holdfast.runtime.checked import Checked, Positive
from holdfast.runtime.option import Option


@dataclass(frozen=True, kw_only=True)
class CertifyOptions(metaclass=Checked):
    """What can be asked of a pair, whatever its encoder and its images are given as.

    What is `Any` here is text on the command line, and may be an object in Python.
    """

    called: ClassVar[str] = "certify"

    eps: Annotated[
        Any,
        Option(
            "Judge this ε, in pixels of a [0, 1] image, 0.02 or 4/255, certified, undecided or broken; repeatable.",
            default="look for the largest that is certified",
            metavar="EPS",
        ),
    ] = None
    norm: Annotated[Any, Option("Norm of the ball: linf or l2.", default="linf", offers=NORMS[:2])] = "linf"
    certifiers: Annotated[
        tuple[Any, ...],
        Option(
            "Prove by this certifier, NAME or NAME[parameter=value,...], such as alpha_crown; repeatable.",
            flag="certifier",
            offers="certifiers",
        ),
    ] = ("interval", "crown_ibp", "crown")
    attack: Annotated[Any, Option("How to search at a given ε.", offers="attacks")] = "apgd[steps=30]"
    steps: Annotated[int, Option("Gradient steps of the search for the smallest change.", least=1)] = 100
    divergence: Annotated[Any, Option('What "nearer" means: cosine or l2.', offers=("cosine", "l2"))] = "cosine"
    sigma: Annotated[Positive, Option("σ of the noise of the smoothed encoder, in pixels.")] = 0.1
    draws: Annotated[int, Option("Noisy versions of the image at most; 0: no smoothing.", least=0)] = 1000
    alpha: Annotated[Positive, Option("Chance that the radius of the smoothed encoder is too large.")] = 0.001
    seed: Seed = 0
    device: Device = None


@dataclass(frozen=True)
class CertifyRequest(CertifyOptions):
    """What is asked in text: the encoder by its spec, images by their files or, of a data set, by their ids."""

    encoder: Annotated[str, Option("Encoder spec, see holdfast list encoders.", offers="encoders", argument=True)]
    _: KW_ONLY
    image: Annotated[str | None, Option("The picture file that is certified.", metavar="FILE")] = None
    against: Annotated[
        tuple[str, ...],
        Option("A picture that it must not be nearer to than to itself; repeatable.", metavar="FILE"),
    ] = ()
    pairs: Annotated[
        str | None,
        Option("CSV file of many: image,against or image,against,eps; several of one kind by ';'.", metavar="CSV"),
    ] = None
    data: Annotated[str | None, Option("Images and the others are ids of these data, not files.", offers="data")] = None
    eps: tuple[str | float, ...] = ()
    device: str = "cpu"
