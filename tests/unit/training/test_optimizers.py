"""Every update rule is torch's; what decays and at which rate is ours."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from hpo.training.config import CLASSIFIER_SCHEMA, ClassifierConfig
from hpo.training.optimizers import build_optimizer, set_learning_rate
from tests.unit.training.trials import undrawn


@dataclass
class Group:
    parameters: dict[str, nn.Parameter]
    lr_scale: float = 1.0


def config(**changes: Any) -> ClassifierConfig:
    return ClassifierConfig.parse(CLASSIFIER_SCHEMA.complete({"data": "digits", **changes}))


def network() -> nn.Module:
    made = undrawn(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    with torch.no_grad():
        for weight in made.parameters():
            weight.fill_(0.5)
    return made


def three_updates(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[torch.Tensor]:
    for step in range(3):
        for index, weight in enumerate(model.parameters()):
            weight.grad = torch.full_like(weight, 0.1 * (step + 1) - 0.05 * index)
        optimizer.step()
    return [weight.detach().clone() for weight in model.parameters()]


REFERENCES: dict[str, tuple[dict[str, Any], Any]] = {
    "sgd": ({"momentum": 0.8}, lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.8)),
    "nesterov": (
        {"optimizer": "sgd", "momentum": 0.8, "nesterov": True},
        lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.8, nesterov=True),
    ),
    "adam": ({"beta1": 0.8}, lambda w: torch.optim.Adam(w, lr=0.1, betas=(0.8, 0.999))),
    "adamw": ({"beta2": 0.9}, lambda w: torch.optim.AdamW(w, lr=0.1, betas=(0.9, 0.9))),
    "rmsprop": ({"momentum": 0.5}, lambda w: torch.optim.RMSprop(w, lr=0.1, momentum=0.5)),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_an_update_is_torchs(name: str) -> None:
    changes, make = REFERENCES[name]
    ours, theirs = network(), network()
    changes = {"optimizer": name} | changes | {"lr": 0.1, "weight_decay": 0.02}
    optimizer = build_optimizer(config(**changes), [Group(dict(ours.named_parameters()))])
    decaying = [w for w in theirs.parameters() if w.ndim >= 2]
    still = [w for w in theirs.parameters() if w.ndim < 2]
    reference = make(
        [{"params": decaying, "weight_decay": 0.02}, {"params": still, "weight_decay": 0.0}]
    )
    mine, others = three_updates(optimizer, ours), three_updates(reference, theirs)
    for one, other in zip(mine, others, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_norms_and_biases_decay_only_when_asked() -> None:
    for decays, expected in ((False, {1: 0.0, 2: 0.02}), (True, {1: 0.02, 2: 0.02})):
        model = network()
        optimizer = build_optimizer(
            config(weight_decay=0.02, decay_norms=decays), [Group(dict(model.named_parameters()))]
        )
        found = {w.ndim: g["weight_decay"] for g in optimizer.param_groups for w in g["params"]}
        assert found == expected


def test_each_group_keeps_its_share_of_every_rate() -> None:
    model = network()
    weights = dict(model.named_parameters())
    head = {"1.weight": weights.pop("1.weight")}
    optimizer = build_optimizer(config(lr=0.3), [Group(weights, 0.1), Group(head)])
    set_learning_rate(optimizer, 0.2)
    rates = {w: g["lr"] for g in optimizer.param_groups for w in g["params"]}
    assert rates[head["1.weight"]] == 0.2
    assert all(rates[w] == pytest.approx(0.02) for w in weights.values())
    assert len(rates) == 4
