"""What a training's curve says, in words: pure functions over measurements and a few facts.

Every rule names the numbers that it rests on and what to do. A rule stays silent where a metric it
needs was not measured. A threshold stands beside its reason; what it may cost is a remark too
many, so each is set where the good configurations of the shipped sweeps stay silent.
Imports no framework.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Final

from hpo.domain.trial import Measurement
from hpo.training.finding import Curve, Facts, Finding, FindingKind

Rule = Callable[[Curve, Facts], Iterator[str]]

INITIAL_EXCESS: Final = 2.0
"""Nats above ln(classes) before the first update, without dropout. Logits of standard deviation s
cost about s^2/2 over guessing: He's initial weights in the last layer, made for a relu that does
not follow, give s up to 1.9 and were seen to cost 1.4. Input ten times too large costs ten and
more."""

INITIAL_SHARE: Final = 0.5
"""Of ln(classes): new weights that are better than this cannot know it from the images."""

OWN_MEAN: Final = 0.5
OWN_STD: Final = (0.5, 2.0)
"""With constants measured on the training data, 0 and 1 are met but for sampling: 512 images give
a mean within 0.1. Pixels left in 0 to 1, or normalised twice, fall outside."""

GIVEN_MEAN: Final = 2.5
GIVEN_STD: Final = (0.2, 5.0)
"""Constants of pretrained weights belong to other images: black-and-white digits through those of
ImageNet have a mean of -1.6. Pixels of 0 to 255 taken for 0 to 1 have one of 100 and more."""

SPIKE: Final = 5.0
"""A gradient norm this many times the median of the epochs before is a spike; within the sound
trainings of the shipped one-at-a-time sweeps the largest was 4.7 times the median."""

RISE_FROM_BEST: Final = 0.25
"""Of ln(classes): how far the training loss must end above its best to be called diverging."""

DEAD_RATIO: Final = 1e-5
"""Of an update to the weights, as norms. About 1e-3 is usual, and 1e-5 needs 100 times as many
epochs. Source: Karpathy, "makemore part 3", on the update-to-data ratio."""

SMALL_RATIO: Final = 1e-4
"""Of an update to the weights: where nothing converges, less is too small, not too large."""

STILL_FALLING: Final = 0.02
"""Of ln(classes), from the first half of the epochs to the second: more than their noise."""

DEAD_CHANGE: Final = 0.02
"""Of the training loss over all epochs: a smaller change is no learning."""

CHANCE_SHARE: Final = 0.9
"""Of ln(classes): a training loss above it has learned next to nothing."""

SHUFFLED_SHARE: Final = 0.98
"""Of ln(classes): validation that is never better has learned nothing that carries over."""

PLATEAU_EPOCHS: Final = 6
PLATEAU_CHANGE: Final = 0.01
"""The training loss of a stuck training stays within 1 percent for 6 epochs; one that still learns
changes by more in two, and the noise of its batches alone is about 1 percent."""

OVERFITTING_RISE: Final = 1.15
OVERFITTING_NATS: Final = 0.02
OVERFITTING_EPOCHS: Final = 3
"""The mean validation loss of the last 3 epochs against the best one. The best of some noisy
epochs is 5 to 10 percent too good by luck alone; a loss near 0 moves by 0.02 from one image."""

MEMORY_SHARE: Final = 0.2
MEMORY_BYTES: Final = 100 << 20
"""A caching allocator still grows in the first two epochs, and fragments by some megabytes."""

LOADER_SHARE: Final = 0.3
RESIDENT_SHARE: Final = 0.5
LOADER_S: Final = 2.0
"""Of training time spent on getting examples; below 2 s in all nothing is to be won."""

NEVER_COUNT: Final = 5
"""Validation examples of a class: with fewer, predicting none of them may be chance."""

NEVER_EPOCHS: Final = 3
NEVER_SHARE: Final = 0.7
"""Of ln(classes): before the training loss is there, some class is the last to be learned."""


def diagnose(measurements: Sequence[Measurement], facts: Facts) -> list[Finding]:
    """Return what a training's curve says; nothing for a sound one.

    Args:
        measurements: of every epoch that was trained, in order.
        facts: what else is known.
    """
    curve = Curve(measurements)
    found: dict[FindingKind, str] = {}
    for kind, rule in _RULES.items():
        if _HIDDEN_BY.get(kind, frozenset()) & found.keys():
            continue
        text = next(rule(curve, facts), None)
        if text is not None:
            found[kind] = text
    return [Finding(kind=kind, text=text) for kind, text in found.items()]


def _diverged(curve: Curve, facts: Facts) -> Iterator[str]:
    remedy = "lower lr, or add warmup_epochs or clip_norm"
    lr = max(curve.of("lr"), default=0.0)
    if lr:
        remedy = f"lower lr (the highest was {lr:.2g}), or add warmup_epochs or clip_norm"
    if facts.failure:
        yield f"{facts.failure}{_spikes(curve)}; {remedy}"
    losses, chance = curve.of("train_loss"), facts.chance_loss
    if len(losses) < 2 or chance is None:
        return
    best = min(losses)
    if losses[-1] > best + RISE_FROM_BEST * chance and losses[-1] > 1.5 * best:
        at = curve.epoch(losses.index(best))
        yield (
            f"train_loss rose from {best:.3g} in epoch {at} to {losses[-1]:.3g} in epoch"
            f" {curve.epoch(-1)}{_spikes(curve)}; {remedy}"
        )


def _spikes(curve: Curve) -> str:
    """Return a clause on gradient norms that stand out from the epochs before them."""
    norms = curve.of("grad_norm_max") or curve.of("grad_norm")
    spikes = [
        f"{norms[i]:.3g} in epoch {curve.epoch(i)}"
        for i in range(1, len(norms))
        if norms[i] > SPIKE * median(norms[:i])
    ]
    if spikes:
        return f", after gradient norms of {', '.join(spikes[:3])} ({norms[0]:.3g} at first)"
    return f"; the gradient norm was {norms[-1]:.3g} in the last whole epoch" if norms else ""


def _initial_loss(_curve: Curve, facts: Facts) -> Iterator[str]:
    text = initial_loss_problem(facts)
    if text is not None:
        yield text


def initial_loss_problem(facts: Facts) -> str | None:
    """Return what is wrong with the loss before the first update; None where nothing is."""
    loss, chance = facts.initial_loss, facts.chance_loss
    if loss is None or chance is None:
        return None
    guess = f"guessing gives ln({facts.num_classes}) = {chance:.2f}"
    if not loss <= chance + INITIAL_EXCESS:
        return (
            f"was {loss:.3g} before the first update, {guess}: the model begins sure of wrong"
            " answers; look at the normalisation, and at how the last layer is initialised"
        )
    if loss < INITIAL_SHARE * chance:
        return (
            f"was {loss:.3g} before the first update, {guess}: untrained weights cannot know;"
            " look whether the labels can be read off the inputs, or belong to fewer classes"
        )
    return None


def _normalisation(_curve: Curve, facts: Facts) -> Iterator[str]:
    text = normalisation_problem(facts)
    if text is not None:
        yield text


def normalisation_problem(facts: Facts) -> str | None:
    """Return what is wrong with what reaches the network; None where nothing is."""
    is_own = facts.has_own_normalisation
    most, (low, high) = (OWN_MEAN, OWN_STD) if is_own else (GIVEN_MEAN, GIVEN_STD)
    for channel, (mean, std) in enumerate(zip(facts.input_mean, facts.input_std, strict=True)):
        if std == 0:  # a channel of one colour; no constant can make it vary
            continue
        if not (abs(mean) <= most and low <= std <= high):
            whose = "measured on the training data" if is_own else "that came with the weights"
            return (
                f"channel {channel} reaches the network with mean {mean:.3g} and standard"
                f" deviation {std:.3g}, not near 0 and 1: the constants {whose} do not fit the"
                " pixels; look at their scale (0 to 1, or to 255) and for a second normalisation"
            )
    return None


def _dead(curve: Curve, facts: Facts) -> Iterator[str]:
    losses, norms = curve.of("train_loss"), curve.of("grad_norm")
    if len(losses) < 2:
        return
    if norms and max(norms) == 0:
        yield (
            f"the gradient is 0 in all {len(curve)} epochs: every layer is frozen, or the loss"
            " does not depend on the weights"
        )
    before = losses[0] if facts.initial_loss is None else facts.initial_loss
    change = (before - min(losses)) / max(abs(before), 1e-12)
    ratios, rates = curve.of("update_ratio"), curve.of("lr")
    if change >= DEAD_CHANGE or not rates:
        return
    rate = max(rates)
    if rate == 0:
        yield f"lr is 0 in all {len(curve)} epochs, train_loss stays at {losses[-1]:.3g}"
    elif ratios and median(ratios) < DEAD_RATIO:
        yield (
            f"an update changes the weights by {median(ratios):.1g} of their size (1e-3 is"
            f" usual) and train_loss stays at {losses[-1]:.3g}; raise lr (the highest was"
            f" {rate:.2g}), by 10 at a time"
        )


def _not_converging(curve: Curve, facts: Facts) -> Iterator[str]:
    losses, chance = curve.of("train_loss"), facts.chance_loss
    if len(losses) < 3 or chance is None or min(losses) <= CHANCE_SHARE * chance:
        return
    what = (
        f"train_loss is {min(losses):.3g} at best after {len(curve)} epochs, guessing gives"
        f" {chance:.3g}"
    )
    half, rates, ratios = len(losses) // 2, curve.of("lr"), curve.of("update_ratio")
    rate = f" (the highest was {max(rates):.2g})" if rates else ""
    if fmean(losses[:half]) - fmean(losses[half:]) > STILL_FALLING * chance:
        yield f"{what}, and still falls: raise lr{rate} or epochs"
    elif ratios and median(ratios) < SMALL_RATIO:
        yield (
            f"{what}, and an update changes the weights by {median(ratios):.1g} of their size"
            f" (1e-3 is usual): raise lr{rate}"
        )
    else:
        yield (
            f"{what}, and does not fall: try a tenth of lr{rate}, then look whether the labels"
            " belong to the images (`hpo data`), then at a larger model"
        )


def _shuffled(curve: Curve, facts: Facts) -> Iterator[str]:
    train, val, chance = curve.of("train_loss"), curve.of("val_loss"), facts.chance_loss
    accuracies, num_val = curve.of("val_accuracy"), sum(facts.val_counts)
    if chance is None or not (train and val and accuracies and num_val) or len(curve) < 2:
        return
    share = max(facts.val_counts) / num_val  # what always naming the largest class gets
    luck = 3 * math.sqrt(share * (1 - share) / num_val)
    if (
        min(train) <= CHANCE_SHARE * chance
        and min(val) >= SHUFFLED_SHARE * chance
        and accuracies[-1] <= share + luck
    ):
        yield (
            f"train_loss fell to {min(train):.3g} but val_loss never below {min(val):.3g}"
            f" (guessing: {chance:.3g}) and val_accuracy ends at {accuracies[-1]:.3f} (the"
            f" largest class: {share:.3f}): what is learned does not carry over; the labels do"
            " not belong to the images, or validation is another kind of data (`hpo data`)"
        )


def _plateau(curve: Curve, facts: Facts) -> Iterator[str]:
    losses, rates, chance = curve.of("train_loss"), curve.of("lr"), facts.chance_loss
    if len(losses) < PLATEAU_EPOCHS + 2 or chance is None or not rates:
        return
    tail = losses[-PLATEAU_EPOCHS:]
    is_flat = max(tail) - min(tail) <= PLATEAU_CHANGE * max(tail)
    # A rate that the schedule has taken to nearly 0 ends every training on a plateau.
    is_moving = rates[-PLATEAU_EPOCHS] >= 0.1 * max(rates)
    if is_flat and is_moving and 0.1 * chance < min(tail):
        yield (
            f"train_loss stays at {tail[-1]:.3g} since epoch {curve.epoch(-PLATEAU_EPOCHS)},"
            f" within {PLATEAU_CHANGE:.0%}, at lr {rates[-PLATEAU_EPOCHS]:.2g}; lower lr"
            " (schedule: cosine or step), or take a larger width or less regularisation"
        )


def _overfitting(curve: Curve, _facts: Facts) -> Iterator[str]:
    val, train = curve.of("val_loss"), curve.of("train_loss")
    if not val or not train:
        return
    best = val.index(min(val))
    tail = val[best + 1 :][-OVERFITTING_EPOCHS:]
    if len(tail) < OVERFITTING_EPOCHS:
        return
    end = fmean(tail)
    has_risen = end >= OVERFITTING_RISE * val[best] and end >= val[best] + OVERFITTING_NATS
    if has_risen and train[-1] < train[best]:
        yield (
            f"since epoch {curve.epoch(best)}: val_loss rose from {val[best]:.3g} to {end:.3g}"
            f" while train_loss fell from {train[best]:.3g} to {train[-1]:.3g}; in this order:"
            " more data, stronger augment, more weight_decay and dropout, a smaller width; or"
            " stop there (patience)"
        )


def _never_predicted(curve: Curve, facts: Facts) -> Iterator[str]:
    losses, chance = curve.of("train_loss"), facts.chance_loss
    if len(losses) < NEVER_EPOCHS or (chance and min(losses) > NEVER_SHARE * chance):
        return
    counts = zip(facts.val_counts, facts.predicted_counts, strict=False)
    never = [
        (index, count)
        for index, (count, predicted) in enumerate(counts)
        if predicted == 0 and count >= NEVER_COUNT
    ]
    if never:
        labels = facts.class_labels or tuple(map(str, range(len(facts.val_counts))))
        named = ", ".join(f"{labels[index]} ({count} images)" for index, count in never[:5])
        more = f" and {len(never) - 5} more" if len(never) > 5 else ""
        yield (
            f"of the validation images none is taken for {named}{more}; weigh rare classes"
            " (class_weights: auto, sampling: balanced) and look at their labels"
        )


def _memory(curve: Curve, _facts: Facts) -> Iterator[str]:
    curve = curve.measured("peak_memory_bytes")
    held = curve.of("peak_memory_bytes")[2:]
    if len(held) < 5:
        return
    rises = sum(after > before for before, after in itertools.pairwise(held))
    growth = held[-1] - held[0]
    if rises >= 0.8 * (len(held) - 1) and growth > max(MEMORY_BYTES, MEMORY_SHARE * held[0]):
        yield (
            f"from {held[0] / 1e6:.0f} MB in epoch {curve.epoch(2)} to {held[-1] / 1e6:.0f} MB in"
            f" epoch {curve.epoch(-1)}, by {growth / 1e6 / (len(held) - 1):.0f} MB an epoch:"
            " something keeps tensors of past batches, such as a loss summed without .detach()"
        )


def _loader(curve: Curve, facts: Facts) -> Iterator[str]:
    curve = curve.measured("data_s", "compute_s")
    waited, computed = curve.of("data_s"), curve.of("compute_s")
    if len(curve) > 1:  # the first epoch also starts the loader and warms caches
        waited, computed = waited[1:], computed[1:]
    total = sum(waited) + sum(computed)
    if sum(waited) < LOADER_S:
        return
    share = sum(waited) / total
    if share > (LOADER_SHARE if facts.is_streaming else RESIDENT_SHARE):
        remedy = (
            "more loader.workers, a smaller image_size, or loader.mode: resident"
            if facts.is_streaming
            else "fewer operations of augment"
        )
        yield (
            f"{share:.0%} of training time waits for examples or varies them"
            f" ({sum(waited):.3g} s of {total:.3g} s): {remedy}"
        )


_RULES: Final[dict[FindingKind, Rule]] = {
    FindingKind.DIVERGED: _diverged,
    FindingKind.INITIAL_LOSS: _initial_loss,
    FindingKind.NORMALISATION: _normalisation,
    FindingKind.DEAD: _dead,
    FindingKind.NOT_CONVERGING: _not_converging,
    FindingKind.SHUFFLED: _shuffled,
    FindingKind.PLATEAU: _plateau,
    FindingKind.OVERFITTING: _overfitting,
    FindingKind.NEVER_PREDICTED: _never_predicted,
    FindingKind.MEMORY: _memory,
    FindingKind.LOADER: _loader,
}
"""Every rule, causes before what they cause."""

_LEARNED_NOTHING: Final = frozenset(
    {FindingKind.DIVERGED, FindingKind.DEAD, FindingKind.NOT_CONVERGING}
)

_HIDDEN_BY: Final[dict[FindingKind, frozenset[FindingKind]]] = {
    FindingKind.DEAD: frozenset({FindingKind.DIVERGED}),
    FindingKind.NOT_CONVERGING: frozenset({FindingKind.DIVERGED, FindingKind.DEAD}),
    FindingKind.SHUFFLED: _LEARNED_NOTHING,
    FindingKind.PLATEAU: _LEARNED_NOTHING,
    FindingKind.OVERFITTING: _LEARNED_NOTHING | {FindingKind.SHUFFLED},
    FindingKind.NEVER_PREDICTED: _LEARNED_NOTHING | {FindingKind.SHUFFLED},
}
"""Findings that only repeat what another says."""
