"""A checkpoint is the registry of parts, and gives back exactly what it took."""

from typing import Any

import pytest
import torch

from hpo.training.state import Progress, TrainState


class Part:
    """Holds any tree."""

    def __init__(self, tree: Any = None) -> None:
        self.tree = tree

    def state_dict(self) -> Any:
        return self.tree

    def load_state_dict(self, state: Any) -> None:
        self.tree = state


def test_a_tree_of_tensors_numbers_and_text_comes_back() -> None:
    tree = {
        "state": {0: {"step": torch.tensor(3.0), "none": None}, 1: {}},
        "groups": [{"lr": 0.1 + 0.2, "flag": True, "name": "x"}, []],
        "tensor": "a key that looks like ours",
    }
    state, copy = TrainState(), TrainState()
    part = Part()
    state.register("part", Part(tree))
    copy.register("part", part)
    tensors, plain = state.capture()
    assert list(tensors) == ["part/state/0/step"]
    copy.restore(tensors, plain)
    assert part.tree == tree


def test_a_part_that_is_missing_or_new_is_named() -> None:
    state, other = TrainState(), TrainState()
    state.register("model", Part({}))
    other.register("network", Part({}))
    with pytest.raises(ValueError, match="holds model, this training has network"):
        other.restore(*state.capture())


def test_two_parts_cannot_share_a_name() -> None:
    state = TrainState()
    state.register("model", Part())
    with pytest.raises(ValueError, match="two parts are named 'model'"):
        state.register("model", Part())


def test_progress_comes_back() -> None:
    copy = Progress()
    copy.load_state_dict(Progress(epoch=2, step=14, examples_seen=300).state_dict())
    assert copy == Progress(epoch=2, step=14, examples_seen=300)
