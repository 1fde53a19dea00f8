"""What the reader asks of a task's schema."""

from collections.abc import Mapping

import pytest

from hpo.domain.search_space import Params, Value
from hpo.domain.task import ConfigKey, ConfigProblem
from hpo.sweepfile.sweep import SweepFileError, parse_sweep


class TwoOptimizers:
    """A task whose momentum is read with sgd alone, and whose batch must be even."""

    metrics = ("val_loss",)

    @property
    def keys(self) -> Mapping[str, ConfigKey]:
        return {
            key.name: key
            for key in (
                ConfigKey(name="optimizer", kind="text", default="adamw", doc="Update rule"),
                ConfigKey(
                    name="momentum",
                    kind="float",
                    default=0.9,
                    doc="Of sgd",
                    only_with=("optimizer", ("sgd",)),
                ),
                ConfigKey(name="batch_size", kind="int", default=4, doc="Even"),
            )
        }

    def complete(self, config: Params) -> Params:
        defaults: dict[str, Value] = {"optimizer": "adamw", "momentum": 0.9, "batch_size": 4}
        return {**defaults, **config}

    def problems(self, config: Params) -> list[ConfigProblem]:
        if config["batch_size"] in (4, 8, 16):
            return []
        return [
            ConfigProblem(key="batch_size", message=f"is {config['batch_size']}, must be even")
        ]


def read(text: str):
    return parse_sweep(text, file="s.yaml", task=TwoOptimizers())


@pytest.mark.parametrize("optimizer", ["baseline: {}", "baseline: {optimizer: adamw}"])
def test_a_varied_key_that_is_never_read_is_refused(optimizer: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        read(f"{optimizer}\nvary:\n  momentum: [0.5, 0.8]\n")
    assert caught.value.problems == (
        (
            "s.yaml:3: vary.momentum: is never read, because baseline.optimizer is adamw,"
            " write optimizer: sgd or remove it"
        ),
    )


@pytest.mark.parametrize(
    "text",
    [
        "baseline: {optimizer: sgd}\nvary: {momentum: [0.5, 0.8]}\n",
        (
            "baseline: {momentum: 0.5}\nstrategy: grid\n"
            "vary: {optimizer: [sgd, adamw], momentum: [0.5, 0.8]}\n"
        ),
    ],
)
def test_a_varied_key_that_is_sometimes_read_can_be_used(text: str) -> None:
    assert "momentum" in read(text).space.names


def test_one_at_a_time_reads_what_the_baseline_reads() -> None:
    with pytest.raises(SweepFileError, match="momentum: is never read"):
        read("baseline: {}\nvary: {optimizer: [sgd], momentum: [0.5, 0.8]}\n")


def test_points_within_a_range_are_checked_like_listed_ones() -> None:
    text = "baseline: {}\nvary:\n  batch_size: {low: 4, high: 16, step: 4}\n"
    with pytest.raises(SweepFileError, match=r"^s.yaml:3: vary.batch_size: is 12, must be even$"):
        read(text)
