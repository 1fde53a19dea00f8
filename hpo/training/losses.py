"""What is minimised: one loss for each kind of target.

Shapes: N examples, K classes or target columns.
"""

from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never

import torch
from torch import Tensor
from torch.nn import functional

from hpo.training.config import ClassifierConfig
from hpo.training.data.source import TargetKind
from hpo.training.keys.key import parts
from hpo.training.task import BadConfigError

LossKind = Literal["cross_entropy", "focal", "bce", "kl_div", "mse", "l1", "huber"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A loss as a sum over examples, which the caller divides by the examples of the update.

    Outputs are logits: nothing applies a softmax before. Targets are int64 classes (N), or a
    float for each output (NK): probabilities, yes or no for each label, or numbers to predict.

    `cross_entropy`: -sum_c w_c q_c log p_c, q the target's probabilities.
    `focal`: -sum_c w_c q_c (1 - p_c)^gamma log p_c.
    `bce`: the mean over outputs of the binary cross-entropy of each, times w_c.
    `kl_div`: sum_c w_c q_c (log q_c - log p_c).
    `mse`, `l1`, `huber`: the mean over outputs, of the outputs themselves; classes become 0 or 1.

    Label smoothing mixes targets with the uniform distribution first (with 1/2 where labels are
    judged alone).

    Source: Lin et al. 2017, "Focal Loss for Dense Object Detection", equation 5; Szegedy et al.
    2016, "Rethinking the Inception Architecture", section 7 (label smoothing).
    Differs: torch divides a weighted mean by the weights in the batch; here by the number of
    examples, so that accumulation and several devices change nothing.
    """

    kind: LossKind
    target_kind: TargetKind = TargetKind.CLASS
    """Of the data; decides how float targets are smoothed and judged."""
    label_smoothing: float = 0.0
    focal_gamma: float = 2.0
    huber_delta: float = 1.0
    class_weights_K: Tensor | None = None  # noqa: N815  # a shape suffix
    """On the device of the outputs; None weighs all alike."""

    def total(self, outputs_NK: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses of the examples, in fp32."""
        outputs_NK = outputs_NK.float()
        match self.kind:
            case "cross_entropy":
                return functional.cross_entropy(
                    outputs_NK,
                    targets,
                    weight=self.class_weights_K,
                    reduction="sum",
                    label_smoothing=self.label_smoothing,
                )
            case "focal":
                log_p_NK = functional.log_softmax(outputs_NK, dim=1)
                easiness_NK = (1 - log_p_NK.exp()) ** self.focal_gamma
                q_NK = self._probabilities(targets, outputs_NK)
                return -(self._weighted(q_NK) * easiness_NK * log_p_NK).sum()
            case "bce":
                q_NK = self._probabilities(targets, outputs_NK)
                losses_NK = functional.binary_cross_entropy_with_logits(
                    outputs_NK, q_NK, reduction="none"
                )
                return self._weighted(losses_NK).mean(dim=1).sum()
            case "kl_div":
                log_p_NK = functional.log_softmax(outputs_NK, dim=1)
                q_NK = self._probabilities(targets, outputs_NK)
                divergence_NK = functional.kl_div(log_p_NK, q_NK, reduction="none")
                return self._weighted(divergence_NK).sum()
            case "mse" | "l1" | "huber":
                return self._distance(outputs_NK, self._as_floats(targets, outputs_NK))
        assert_never(self.kind)

    @property
    def plain(self) -> "Loss":
        """The same without smoothing, weights or focus: what evaluation measures."""
        kind: LossKind = "cross_entropy" if self.kind in ("focal", "kl_div") else self.kind
        return replace(self, kind=kind, label_smoothing=0.0, class_weights_K=None)

    def _distance(self, outputs_NK: Tensor, targets_NK: Tensor) -> Tensor:
        match self.kind:
            case "mse":
                losses_NK = (outputs_NK - targets_NK).square()
            case "l1":
                losses_NK = (outputs_NK - targets_NK).abs()
            case _:
                losses_NK = functional.huber_loss(
                    outputs_NK, targets_NK, reduction="none", delta=self.huber_delta
                )
        return self._weighted(losses_NK).mean(dim=1).sum()

    def _probabilities(self, targets: Tensor, outputs_NK: Tensor) -> Tensor:
        q_NK = self._as_floats(targets, outputs_NK)
        if not self.label_smoothing:
            return q_NK
        is_each_alone = self.target_kind is TargetKind.MULTILABEL
        uniform = 0.5 if is_each_alone else 1 / outputs_NK.shape[1]
        return q_NK * (1 - self.label_smoothing) + self.label_smoothing * uniform

    @staticmethod
    def _as_floats(targets: Tensor, outputs_NK: Tensor) -> Tensor:
        if targets.is_floating_point():
            return targets.to(outputs_NK.dtype).reshape(outputs_NK.shape)
        return functional.one_hot(targets, outputs_NK.shape[1]).to(outputs_NK.dtype)

    def _weighted(self, losses_NK: Tensor) -> Tensor:
        return losses_NK if self.class_weights_K is None else losses_NK * self.class_weights_K


_FITTING: Final = {
    TargetKind.CLASS: ("cross_entropy", "focal", "bce", "kl_div", "mse", "l1", "huber"),
    TargetKind.MULTILABEL: ("bce", "mse", "l1", "huber"),
    TargetKind.SOFT: ("cross_entropy", "focal", "bce", "kl_div", "mse", "l1", "huber"),
    TargetKind.REGRESSION: ("mse", "l1", "huber"),
}


def build_loss(config: ClassifierConfig, target_kind: TargetKind, labels: Tensor) -> Loss:
    """Return the training loss of a configuration.

    Args:
        config: the classifier's.
        target_kind: of the data.
        labels: of the training split, on the training device; weights are counted from them.

    Raises:
        BadConfigError: the loss does not fit the targets, or weights are not one for each class.
    """
    fitting = _FITTING[target_kind]
    if config.loss not in fitting:
        raise BadConfigError(
            f"loss is {config.loss}, which does not fit targets of kind {target_kind.value};"
            f" write one of {', '.join(fitting)}"
        )
    return Loss(
        kind=config.loss,
        target_kind=target_kind,
        label_smoothing=config.label_smoothing,
        focal_gamma=config.focal_gamma,
        huber_delta=config.huber_delta,
        class_weights_K=class_weights(config.class_weights, labels, target_kind),
    )


def class_weights(text: str, labels: Tensor, target_kind: TargetKind) -> Tensor | None:
    """Return a weight for each class in the order of the classes, or None for `none`.

    `auto` is N / (K n_c), n_c the examples of class c of N: 1 on average over the examples.

    Raises:
        BadConfigError: the weights are not one for each class, or there are no classes to count.
    """
    if text == "none":
        return None
    if target_kind is TargetKind.REGRESSION:
        raise BadConfigError(
            "class_weights is for classes, but the targets are numbers to predict"
        )
    counts_K = torch.bincount(labels) if labels.ndim == 1 else labels.sum(dim=0)
    num_classes = len(counts_K)
    if text == "auto":
        return (counts_K.sum() / (num_classes * counts_K.clamp(min=1))).float()
    weights = [float(item) for item in parts(text)]
    if len(weights) != num_classes:
        raise BadConfigError(
            f"class_weights has {len(weights)} numbers, must have {num_classes}, one for each"
            " class in their order"
        )
    return torch.tensor(weights, device=labels.device)
