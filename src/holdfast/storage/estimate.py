"""What an audit will take, typed: made by `holdfast audit --dry-run`, printed, written as JSON."""

from typing import Literal

from holdfast.storage.entry import Count, Entry, Number, PassesEntry


class Work(PassesEntry, frozen=True, kw_only=True):
    """Encoder passes, and the bound propagations among them by what they cost: `work`, in passes."""

    work: Count


NO_WORK = Work(forward=0, backward=0, work=0)


class Seconds(Entry, frozen=True, kw_only=True):
    """An expected time, and two standard errors below and above it by what was timed."""

    expected: Number
    low: Number
    high: Number


class UnitSeconds(Entry, frozen=True, kw_only=True):
    """Seconds of one image: read, passed forward, and passed forward and backward to its pixels."""

    read: Number
    forward: Number
    forward_and_backward: Number


class PartEstimate(Entry, frozen=True, kw_only=True):
    """What one part of an audit is expected to take on one worker.

    Attributes:
        kind: what it is: an observation, what is done once, reading images, checks, or the scores of a measure.
        title: the part, in a few words.
        images: how many images (or rows) it sees.
        passes: encoder passes; the most where `at_most`.
        seconds: expected time.
        low: two standard errors below, by what was timed; says nothing of what else the machine will do.
        high: two above.
        how: what the time is taken from.
        serves: measures and checks that read it.
        at_most: whether it may end before it has made all passes that were timed.
        at_least: whether the times are lower bounds: it was stopped before anything of it was done, or was not begun.
        guessed: whether nothing of it was timed, so that the time is that of its passes, or pairs, alone.
        stored: bytes of what is seen.
    """

    kind: Literal["observation", "once", "reading", "checks", "scores"]
    title: str
    images: Count = 0
    passes: Work = NO_WORK
    seconds: Number
    low: Number
    high: Number
    how: str
    serves: tuple[str, ...] = ()
    at_most: bool = False
    at_least: bool = False
    guessed: bool = False
    stored: Count = 0


class EncoderEstimate(Entry, frozen=True, kw_only=True):
    """What the audit of one encoder is expected to take.

    Attributes:
        name: the encoder.
        error: why it could not be opened or does not run; the rest is empty then.
        batch_size: images per encoder pass.
        dim: of the representation.
        shards: files of observations that the audit will write.
        stored: how many of them are in the run folder now; their time is not taken off. None: no shard was kept.
        unit_seconds: of one image.
        parts: what it consists of.
        memory_bytes: at the peak, in the process of one worker.
        device_memory_bytes: the same on the accelerator; None on a CPU.
        passes: of all parts.
        at_most: whether one of them may end early.
        at_least: whether the time of one of them is a lower bound.
        seconds: of all parts; workers share what they observe and read.
        disk_bytes: of all that is seen.
        sends: who gets how many images in how many calls, where it is a service; "" for others.
    """

    name: str
    error: str | None = None
    batch_size: Count = 0
    dim: Count = 0
    shards: Count = 0
    stored: Count | None = None
    unit_seconds: UnitSeconds | None = None
    parts: tuple[PartEstimate, ...] = ()
    memory_bytes: Count = 0
    device_memory_bytes: Count | None = None
    passes: Work = NO_WORK
    at_most: bool = False
    at_least: bool = False
    seconds: Seconds = Seconds(expected=0, low=0, high=0)
    disk_bytes: Count = 0
    sends: str = ""


class Budget(Entry, frozen=True, kw_only=True):
    """How far an audit in rounds comes within its budget.

    Attributes:
        seconds: the budget.
        attacked: images that are attacked by the end of the last round that fits, or of the first one.
        takes: expected seconds until then: more than the budget where the first round, which is always made, is.
        answers_only: whether that round asks only the measures that answer in a sentence.
    """

    seconds: Number
    attacked: Count
    takes: Number
    answers_only: bool = False


class MoreImages(Entry, frozen=True, kw_only=True):
    """What an audit would take of more images than there are, if they were like these.

    Attributes:
        images: as many as the plan asks for.
        attacked: how many of them it would attack.
        seconds: expected time of all encoders, without a budget.
    """

    images: Count
    attacked: Count
    seconds: Number


class Estimate(Entry, frozen=True, kw_only=True):
    """What an audit is expected to take.

    Attributes:
        images: how many there are.
        more: what as many as the plan asks for would take; None where there are as many.
        attacked: how many of them are attacked.
        budget: how far the audit comes within its budget; None without one, or where no encoder could be run.
        balls: how large the balls of the plan are on them, in sentences.
        device: that encoders run on.
        workers: processes among which the observations are divided.
        shard: the part of the shards that is made; None: all.
        folder: the run folder.
        calibration_seconds: that timing took.
        bound: passes that a bound propagation counts for.
        passes: of all encoders.
        seconds: of all encoders; None where none could be run.
        at_least: whether the time of one of them is a lower bound.
        memory_bytes: of all workers; None where no encoder could be run.
        disk_bytes: of all encoders.
        encoders: each of them, those that could not be run included.
    """

    images: Count
    more: MoreImages | None = None
    attacked: Count
    budget: Budget | None = None
    balls: list[str]
    device: str
    workers: Count
    shard: str | None
    folder: str
    calibration_seconds: Number
    bound: Number
    passes: Work
    seconds: Seconds | None
    at_least: bool
    memory_bytes: Count | None
    disk_bytes: Count
    encoders: list[EncoderEstimate]
