"""Everything that can be known before training is known at once, in milliseconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from hpo.domain.search_space import Value
from hpo.training.catalog import IMAGE_SETS
from hpo.training.config import CLASSIFIER_SCHEMA, METRICS, ClassifierConfig
from hpo.training.task import BadConfigError


def problems(**changes: Value) -> dict[str, str]:
    config = CLASSIFIER_SCHEMA.complete({"data": "digits", **changes})
    found = CLASSIFIER_SCHEMA.problems(config)
    assert len({problem.key for problem in found}) == len(found)
    return {problem.key: problem.message for problem in found}


def test_the_defaults_can_be_trained() -> None:
    assert problems() == {}


def test_every_key_is_documented_and_complete() -> None:
    for name, key in CLASSIFIER_SCHEMA.keys.items():
        assert key.name == name
        assert key.kind in ("int", "float", "text", "bool", "bool or text")
        assert len(key.doc) > 10
    required = [name for name, key in CLASSIFIER_SCHEMA.keys.items() if key.default is None]
    assert required == ["data"]
    assert CLASSIFIER_SCHEMA.keys["data"].choices is None
    assert all(name in CLASSIFIER_SCHEMA.keys["data"].doc for name in IMAGE_SETS)
    assert CLASSIFIER_SCHEMA.metrics == METRICS


def test_completing_keeps_what_was_given_and_orders_keys_as_declared() -> None:
    completed = CLASSIFIER_SCHEMA.complete({"batch_size": 32.0, "widht": 3, "data": "digits"})
    assert list(completed) == [*CLASSIFIER_SCHEMA.keys, "widht"]
    assert repr(completed["batch_size"]) == "32.0"
    assert completed["lr"] == CLASSIFIER_SCHEMA.keys["lr"].default


def test_a_whole_float_is_a_whole_number() -> None:
    assert problems(batch_size=32.0) == {}
    parsed = ClassifierConfig.parse({"data": "digits", "batch_size": 32.0})
    assert repr(parsed.batch_size) == "32"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lr", "1e-3", "is '1e-3' (text), must be a number"),
        ("lr", 0, "is 0, must be > 0"),
        ("lr", True, "is true, must be a number"),
        ("lr", float("inf"), "is inf, must be finite"),
        ("epochs", "15", "is '15' (text), must be a whole number"),
        ("epochs", 1.5, "is 1.5, must be a whole number"),
        ("epochs", True, "is true, must be a whole number"),
        ("epochs", 0, "is 0, must be >= 1"),
        ("dropout", 1.0, "is 1, must be < 1"),
        ("augment", 1.1, "is 1.1, must be <= 1"),
        ("weight_decay", float("nan"), "is nan, must be finite"),
        ("download", 1, "is 1, must be true or false"),
        ("download", "yes", "is 'yes' (text), must be true or false"),
        ("data_root", "", "is '' (text), must be a name that is not empty"),
        ("widht", 32, "is not a key of the classifier, did you mean 'width'?"),
        ("colour", 32, "is not a key of the classifier; remove it"),
        ("optimizer", 3, "is 3, must be one of sgd, adam, adamw, rmsprop"),
        (
            "optimizer",
            "adamv",
            "is 'adamv' (text), must be one of sgd, adam, adamw, rmsprop, did you mean 'adam'?",
        ),
        (
            "data",
            "digit",
            (
                f"is 'digit' (text), must be one of {', '.join(IMAGE_SETS)}, folder:PATH,"
                " arrays:FILE.npz or package.module:function, did you mean 'digits'?"
            ),
        ),
        (
            "batch_size",
            2000,
            "is 2000, must be at most 1257, the images in the training split of digits",
        ),
        ("warmup_epochs", 15, "is 15, must be below epochs (15)"),
    ],
)
def test_a_bad_value_is_named_with_what_to_write_instead(
    key: str, value: Value, message: str
) -> None:
    assert problems(**{key: value}) == {key: message}


def test_a_missing_data_set_is_asked_for() -> None:
    (problem,) = CLASSIFIER_SCHEMA.problems(CLASSIFIER_SCHEMA.complete({}))
    assert problem.key == "data"
    assert "is missing; write one of digits" in problem.message


def test_all_problems_are_found_at_once() -> None:
    found = problems(lr="x", epochs=4, warmup_epochs=4, batch_size=9999, typo=1)
    assert set(found) == {"lr", "warmup_epochs", "batch_size", "typo"}


def test_a_check_of_several_keys_waits_until_each_is_sound() -> None:
    assert set(problems(epochs="many", warmup_epochs=99)) == {"epochs"}


def test_the_largest_batch_is_the_training_split() -> None:
    assert problems(batch_size=1257) == {}
    assert (
        "at most 899"
        in problems(batch_size=1257, val_fraction=0.3, test_fraction=0.2)["batch_size"]
    )


def test_missing_files_come_with_how_to_get_them(tmp_path: Path) -> None:
    absent = problems(data="mnist", data_root=str(tmp_path / "none"))["data_root"]
    assert "which is no folder here" in absent
    assert "download: true" in absent
    folder = tmp_path / "MNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "train-images-idx3-ubyte.gz").touch()
    lacking = problems(data="mnist", data_root=str(tmp_path))["data_root"]
    assert "lacks MNIST/raw/train-labels-idx1-ubyte;" in lacking
    assert str(folder) in lacking
    assert problems(data="mnist", data_root=str(tmp_path / "none"), download=True) == {}


@pytest.mark.parametrize(("name", "suffix"), [("mnist", ".gz"), ("mnist", ""), ("cifar10", "")])
def test_files_that_are_there_are_no_problem(tmp_path: Path, name: str, suffix: str) -> None:
    image_set = IMAGE_SETS[name]
    (tmp_path / image_set.folder).mkdir(parents=True)
    for file in image_set.files:
        (tmp_path / image_set.folder / f"{file}{suffix}").touch()
    assert problems(data=name, data_root=str(tmp_path)) == {}


def test_reading_a_bad_configuration_for_training_names_each_key() -> None:
    with pytest.raises(BadConfigError, match=r"data is missing.*lr is 0, must be > 0"):
        ClassifierConfig.parse({"lr": 0})


def test_checking_a_configuration_imports_no_framework() -> None:
    code = (
        "import sys, hpo.training.config;"
        "print([m for m in ('torch', 'numpy', 'optuna', 'mlflow') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"
