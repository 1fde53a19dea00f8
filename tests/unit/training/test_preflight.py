from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

from hpo.clock import SystemClock
from hpo.training.config import ClassifierConfig
from hpo.training.data.dataset import load_data
from hpo.training.determinism import STREAM_NAMES, RandomStreams
from hpo.training.models.classifier import build_model
from hpo.training.preflight import NUM_SAMPLES, Passed, PreflightError, clean, preflight
from tests.unit.training.trials import SMALL, SteppingClock, small_request

FAULTS = "tests.unit.training.models_with_faults"


def tried(cache_dir: Path, **config: object) -> Passed:
    return preflight(small_request(cache_dir, config), SystemClock())


def fault(cache_dir: Path, **config: object) -> str:
    with pytest.raises(PreflightError) as caught:
        tried(cache_dir, **config)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model": "mlp"},
        {"model": "resnet9"},
        {"model": f"{FAULTS}:sound"},
        {"optimizer": "sgd", "lr": 1e-4},
        {"batch_size": 16, "accumulate": 4},
        {"lr": 0.1},
        {"ema_decay": 0.99},
        {"precision": "bf16"},
        {"loss": "focal", "label_smoothing": 0.1},
        {"schedule": "one_cycle", "clip_norm": 1.0},
    ],
    ids=str,
)
def test_what_trains_passes(cache_dir: Path, config: dict[str, object]) -> None:
    passed = tried(cache_dir, **config)
    assert passed.num_samples == NUM_SAMPLES
    assert passed.last_loss < passed.first_loss
    assert passed.remarks == ()


def test_a_small_model_takes_less_than_two_seconds(cache_dir: Path) -> None:
    tried(cache_dir)  # torch imports its compiler's front end at its first optimizer
    assert min(tried(cache_dir).seconds for _ in range(3)) < 2


def test_a_layer_that_does_not_fit_is_named_with_what_came_before(cache_dir: Path) -> None:
    with pytest.raises(PreflightError, match=r"images of 1 x 8 x 8: at network\.2") as c:
        tried(cache_dir, model=f"{FAULTS}:wrong_shape")
    passed = [line.rpartition(": ")[2] for line in c.value.details]
    assert passed[-3:] == ["1x1x8x8 -> 1x4x8x8", "1x4x8x8 -> 1x256", "1x256 -> fails"]


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        ({"model": f"{FAULTS}:frozen"}, ["no weight of the model is trained", "requires_grad"]),
        ({"model": f"{FAULTS}:with_nan"}, ["network.3 (Linear", "NaN", "its weight"]),
        ({"model": f"{FAULTS}:with_idle_layer"}, ["network.idle.weight", "no gradient"]),
        ({"model": f"{FAULTS}:with_dead_output"}, ["gradient of every weight is 0"]),
        ({"model": f"{FAULTS}:forgetful"}, ["come back from a checkpoint otherwise"]),
        ({"model": f"{FAULTS}:exploding"}, ["before the first update", "ln(10) = 2.30"]),
        ({"model": f"{FAULTS}:missing"}, ["missing"]),
        ({"lr": 1e-12}, ["does not fall", "lr 1e-12", "raise lr"]),
        ({"lr": 1e3}, ["does not fall", "lower lr"]),
        ({"lr": 1e12}, ["nan", "lr 1e+12", "lower lr"]),
        ({"batch_size": 100_000}, ["batch_size is 100000"]),
    ],
    ids=str,
)
def test_a_fault_gets_a_sentence(
    cache_dir: Path, config: dict[str, object], parts: list[str]
) -> None:
    text = fault(cache_dir, **config)
    for part in parts:
        assert part in text


@pytest.mark.parametrize("key", ["init_from", "pretrained"])
def test_weights_whose_normalisation_is_for_other_pixels_are_a_fault(
    cache_dir: Path, tmp_path: Path, key: str
) -> None:
    request = small_request(cache_dir, {"model": "mlp"})
    config = ClassifierConfig.parse(request.config)
    card = load_data(request.config, cache_dir, 0, "cpu").card
    model = build_model(config, card, RandomStreams(dict.fromkeys(STREAM_NAMES, 0)))
    weights = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    path = str(tmp_path / "weights.safetensors")
    save_file(weights, path)
    assert tried(cache_dir, model="mlp", **{key: path}).last_loss > 0
    # 255 times too large: made for pixels of 0 to 1, given pixels of 0 to 255
    save_file({**weights, "normalize.scale": weights["normalize.scale"] * 255}, path)
    text = fault(cache_dir, model="mlp", **{key: path})
    assert "normalisation: channel 0" in text
    assert "came with the weights" in text


def test_targets_too_large_for_the_loss_are_seen(cache_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "set.npz"
    generator = np.random.default_rng(0)
    images = generator.integers(0, 255, (200, 8, 8), dtype=np.uint8)
    np.savez(file, images=images, labels=generator.normal(size=(200, 1)).astype(np.float32) * 1e30)
    text = fault(cache_dir, data=f"arrays:{file}", loss="mse", batch_size=50)
    assert "train_loss is inf" in text
    assert "scale of the targets" in text


def test_what_is_random_or_slow_is_switched_off_and_the_rest_is_as_configured() -> None:
    config = {
        **SMALL,
        "augment.flip": -1.0,
        "augment.rand_magnitude": 0.3,
        "compile": True,
        "weight_decay": 0.5,
    }
    cleaned = clean(config)
    assert cleaned["dropout"] == cleaned["augment"] == cleaned["augment.flip"] == 0
    assert cleaned["compile"] is False
    assert cleaned["weight_decay"] == 0.5
    assert set(cleaned) == set(config)


def test_a_loss_that_does_not_fall_is_given_up_after_a_minute(cache_dir: Path) -> None:
    request = small_request(cache_dir, {"lr": 1e-12})
    with pytest.raises(PreflightError, match=r"does not fall in \d epochs"):
        preflight(request, SteppingClock(step_s=10.0))


def test_nothing_of_the_home_changes_but_the_cache(cache_dir: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    tried(cache_dir)
    assert sorted(tmp_path.iterdir()) == before
