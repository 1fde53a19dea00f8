"""Knowing cuts: what is too long for MLflow is shortened, and a tag says so."""

from collections.abc import Mapping

from tracking.records import ParamValue

MAX_PARAM_LENGTH = 6000
"""MLflow cuts longer values without a word."""

MAX_TAG_LENGTH = 8000
"""As above."""

MAX_EXPERIMENT_TAG_LENGTH = 20000
"""MLflow refuses longer ones."""

CUT_TAG = "hpo.cut."
"""Begins a tag that says of a parameter or tag, named by the rest, how long it was."""


def cut_params(params: Mapping[str, ParamValue]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters as text that fits, and the tags that tell of cuts."""
    texts = {name: str(value) for name, value in params.items()}
    return _cut(texts, MAX_PARAM_LENGTH), _notes(texts, MAX_PARAM_LENGTH)


def cut_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags shortened to what fits, with those that tell of cuts."""
    return _cut(tags, MAX_TAG_LENGTH) | _notes(tags, MAX_TAG_LENGTH)


def cut_experiment_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return an experiment's tags shortened to what fits, with those that tell of cuts."""
    return _cut(tags, MAX_EXPERIMENT_TAG_LENGTH) | _notes(tags, MAX_EXPERIMENT_TAG_LENGTH)


def _cut(texts: Mapping[str, str], max_length: int) -> dict[str, str]:
    return {name: text[:max_length] for name, text in texts.items()}


def _notes(texts: Mapping[str, str], max_length: int) -> dict[str, str]:
    return {
        f"{CUT_TAG}{name}": f"shows the first {max_length} of {len(text)} characters"
        for name, text in texts.items()
        if len(text) > max_length
    }
