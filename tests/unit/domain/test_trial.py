"""Identities of trials and configurations."""

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.domain.trial import PlannedTrial, Role, TrialId, TrialState, config_id

if TYPE_CHECKING:
    from hpo.domain.search_space import Value


@pytest.mark.parametrize("text", ["lr-digits/7", "a/0", "a.b_c/12"])
def test_a_trial_id_reads_as_it_is_written(text: str) -> None:
    assert str(TrialId.parse(text)) == text


@pytest.mark.parametrize("text", ["", "lr", "lr/", "/7", "lr/x", "lr/-1", "lr/1.5", "lr/ 1"])
def test_what_is_no_trial_id_says_how_one_looks(text: str) -> None:
    with pytest.raises(ValueError, match="write STUDY/NUMBER"):
        TrialId.parse(text)


def test_trial_ids_are_ordered_by_number_and_not_by_text() -> None:
    ids = [TrialId.parse(text) for text in ("b/1", "a/10", "a/9")]
    assert [str(trial_id) for trial_id in sorted(ids)] == ["a/9", "a/10", "b/1"]


FLOATS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), FLOATS, st.text())


@given(st.dictionaries(st.text(), VALUES))
def test_a_config_id_depends_on_content_and_not_on_order_or_spelling(config) -> None:
    shuffled = dict(reversed(config.items()))
    assert config_id(shuffled) == config_id(config)
    assert config_id(json.loads(json.dumps(config))) == config_id(config)
    floats: dict[str, Value] = {
        key: float(value) if type(value) is int else value for key, value in config.items()
    }
    assert config_id(floats) == config_id(config)


def test_a_config_id_tells_configurations_apart_and_never_changes() -> None:
    configs: list[dict[str, Value]] = [
        {"a": 1},
        {"a": 2},
        {"a": "1"},
        {"a": True},
        {"b": 1},
        {"a": 1, "b": 1},
        {},
    ]
    ids = {config_id(config) for config in configs}
    assert len(ids) == len(configs)
    assert config_id({"lr": 1e-3, "batch_size": 64}) == "e449a21a061f"


def test_replicates_share_a_config_id() -> None:
    trials = [
        PlannedTrial(
            number=number,
            params={"lr": 0.1},
            config={"lr": 0.1, "epochs": 2},
            replicate=number,
            role=Role.POINT,
        )
        for number in range(2)
    ]
    assert trials[0].config_id == trials[1].config_id


def test_only_three_states_are_final() -> None:
    final = [state.value for state in TrialState if state.is_finished]
    assert final == ["COMPLETE", "PRUNED", "FAIL"]
