"""How a trial of the classifier is judged: what is measured before it, and diagnosed after it."""

from dataclasses import replace

from hpo.training.config import ClassifierConfig
from hpo.training.data.dataset import Dataset
from hpo.training.data.source import TargetKind
from hpo.training.data.streaming import StreamedSplit
from hpo.training.diagnosis import diagnose
from hpo.training.diary import input_statistics, outputs_unmoved, sample
from hpo.training.finding import Facts
from hpo.training.models.classifier import Classifier
from hpo.training.task import OutcomeKind, TrialOutcome
from hpo.training.trainee import Trainee


def write_beginning(trainee: Trainee) -> None:
    """Measure what reaches the network and the loss before the first update; move nothing.

    Left out where several devices train together, since their norms may wait for each other.
    """
    if not trainee.ranks.is_alone:
        return
    images_NCHW, labels = sample(trainee.train)
    diary, model = trainee.diary, trainee.model
    with trainee.precision.autocast():
        outputs_NK = outputs_unmoved(model, images_NCHW)
    diary.initial_loss = float(trainee.loss.plain.total(outputs_NK, labels)) / len(labels)
    if isinstance(model, Classifier):
        diary.input_mean, diary.input_std = input_statistics(model.normalize, images_NCHW)


def facts_of(trainee: Trainee, config: ClassifierConfig, dataset: Dataset) -> Facts:
    """Return what is known of a training besides its curve."""
    diary, card, loss = trainee.diary, dataset.card, trainee.loss
    is_plain = (
        loss.kind == "cross_entropy"
        and card.target_kind == TargetKind.CLASS
        and config.class_weights in ("none", "auto")  # weights of 1 on average
    )
    is_new = config.init_from == "none" and config.pretrained is False
    return Facts(
        num_classes=card.num_classes if is_plain else None,
        initial_loss=diary.initial_loss if is_new else None,
        input_mean=diary.input_mean,
        input_std=diary.input_std,
        has_own_normalisation=is_new,
        class_labels=card.class_labels,
        val_counts=diary.val_counts,
        predicted_counts=diary.predicted_counts,
        is_streaming=isinstance(trainee.train, StreamedSplit),
    )


def findings_of(
    trainee: Trainee, config: ClassifierConfig, dataset: Dataset, outcome: TrialOutcome
) -> tuple[str, ...]:
    """Return what a training that ended says of itself, a line for each finding."""
    facts = facts_of(trainee, config, dataset)
    if outcome.kind is OutcomeKind.DIVERGED:
        facts = replace(facts, failure=outcome.message)
    return tuple(str(finding) for finding in diagnose(trainee.diary.measurements, facts))
