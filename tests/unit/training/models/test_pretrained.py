"""Weights from elsewhere: what fits is loaded, what does not is named, numbers come along."""

from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import safetensors.torch
import torch
import torchvision
from torch import Tensor
from torch.nn import functional

from hpo.training.config import ClassifierConfig
from hpo.training.determinism import seeded_generator
from hpo.training.keys.models import pretrained_size
from hpo.training.models.initialisation import drawing_from
from hpo.training.task import BadConfigError
from tests.unit.training.models.networks import build, pixels

IMAGENET_MEAN = (0.485, 0.456, 0.406)
SHUFFLENET = "shufflenet_v2_x0_5"
RGB = (3, 32, 32)


@pytest.fixture(scope="module")
def weights() -> dict[str, Tensor]:
    """Return the weights of a small torchvision model for 1000 classes."""
    with drawing_from(seeded_generator(9)):
        network = torchvision.models.get_model(SHUFFLENET, weights=None)
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


def saved(path: Path, content: Any) -> str:
    torch.save(content, path)
    return str(path)


def test_all_but_the_last_layer_is_taken_from_a_file(
    tmp_path: Path, weights: dict[str, Tensor]
) -> None:
    path = saved(tmp_path / "weights.pth", weights)
    model = build(SHUFFLENET, RGB, pretrained=path)
    state = model.network.state_dict()
    assert all(
        torch.equal(state[name], tensor)
        for name, tensor in weights.items()
        if not name.startswith("fc.")
    )
    assert state["fc.weight"].shape == (4, 1024)
    loaded, new_head, numbers = model.notes
    assert f"{len(weights) - 2} of {len(weights)} tensors from {path}: conv1.0.weight" in loaded
    assert "the last layer is new" in new_head
    assert "fc.weight (file (1000, 1024), model (4, 1024))" in new_head
    assert "mean 0.485, 0.456, 0.406" in numbers
    assert model.weights_sha256 is not None


@pytest.mark.parametrize(
    ("prefix", "wrapper"),
    [("module.", None), ("module._orig_mod.", "state_dict"), ("model.", "model"), ("", "weights")],
)
def test_what_other_programs_put_around_weights_is_taken_off(
    tmp_path: Path, weights: dict[str, Tensor], prefix: str, wrapper: str | None
) -> None:
    renamed: Any = {f"{prefix}{name}": tensor for name, tensor in weights.items()}
    content = {wrapper: renamed, "epoch": 3} if wrapper else renamed
    model = build(SHUFFLENET, RGB, pretrained=saved(tmp_path / "w.pth", content))
    assert torch.equal(model.network.get_parameter("conv1.0.weight"), weights["conv1.0.weight"])
    assert not any("warning" in note for note in model.notes)


def test_weights_of_another_shape_and_those_that_lack_are_named(
    tmp_path: Path, weights: dict[str, Tensor]
) -> None:
    changed = dict(weights)
    changed["conv1.0.weight"] = torch.zeros(24, 1, 3, 3)
    del changed["conv5.0.weight"]
    changed["old.bias"] = torch.zeros(3)
    model = build(SHUFFLENET, RGB, pretrained=saved(tmp_path / "w.pth", changed))
    notes = "\n".join(model.notes)
    assert "conv1.0.weight (file (24, 1, 3, 3), model (24, 3, 3, 3))" in notes
    assert "warning: the file lacks weights, which stay new: conv5.0.weight" in notes
    assert "no place for old.bias" in notes
    assert model.network.get_parameter("conv1.0.weight").abs().sum() > 0


def test_pretrained_weights_bring_their_normalisation_and_image_size(
    tmp_path: Path, weights: dict[str, Tensor]
) -> None:
    path = saved(tmp_path / "w.pth", weights)
    model = build(SHUFFLENET, RGB, pretrained=path)
    assert model.input.mean == pytest.approx(IMAGENET_MEAN)
    assert model.input.std == pytest.approx((0.229, 0.224, 0.225))
    assert model.input.image_size == 224
    normalised = model.normalize(torch.full((1, 3, 32, 32), 8, dtype=torch.uint8))
    assert normalised.shape == (1, 3, 224, 224)
    assert normalised[0, :, 100, 100].tolist() == pytest.approx(
        [(0.5 - 0.485) / 0.229, (0.5 - 0.456) / 0.224, (0.5 - 0.406) / 0.225], abs=1e-6
    )
    alone = build(SHUFFLENET, RGB)
    assert alone.input.mean == (0.5, 0.5, 0.5)
    assert alone.input.image_size is None
    config = ClassifierConfig.parse({"data": "digits", "model": SHUFFLENET, "pretrained": path})
    assert pretrained_size(config) == 224


def test_a_restored_model_needs_no_file_and_gets_the_same_numbers(
    tmp_path: Path, weights: dict[str, Tensor]
) -> None:
    path = saved(tmp_path / "w.pth", weights)
    original = build(SHUFFLENET, RGB, pretrained=path, freeze="backbone")
    Path(path).unlink()
    restored = build(SHUFFLENET, RGB, pretrained=path, freeze="backbone", is_restored=True)
    restored.load_state_dict(original.state_dict())
    assert restored.input == original.input
    images = pixels(RGB)
    assert torch.equal(restored.eval()(images), original.eval()(images))


def test_our_own_weights_bring_the_normalisation_they_were_trained_with(tmp_path: Path) -> None:
    trained = build(init=1)
    trained.normalize.scale.fill_(0.125)
    trained.normalize.shift.fill_(-1.5)
    path = tmp_path / "weights.safetensors"
    state = {name: tensor.contiguous() for name, tensor in trained.state_dict().items()}
    safetensors.torch.save_file(state, path)
    model = build(init=2, pretrained=str(path))
    images = pixels((1, 8, 8))
    assert torch.equal(model.eval()(images), trained.eval()(images))
    assert model.input.mean == (0.75,)  # 1.5 / (0.125 x 16)
    assert any("normalisation is the file's own" in note for note in model.notes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no weights", "which is no file of weights"),
        ([1, 2], "holds list"),
        ({"epoch": 3}, "holds no tensor"),
        ({"other.weight": torch.zeros(3, 3)}, "no weight fits the model: it holds other.weight"),
    ],
)
def test_a_file_of_something_else_is_refused_in_a_sentence(
    tmp_path: Path, content: Any, message: str
) -> None:
    path = tmp_path / "w.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(BadConfigError, match=message):
        build(pretrained=str(path))


def test_default_weights_are_found_in_the_cache_of_torch(
    tmp_path: Path, weights: dict[str, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    url = torchvision.models.get_model_weights(SHUFFLENET).DEFAULT.url
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(weights, folder / url.rpartition("/")[2])
    model = build(SHUFFLENET, RGB, pretrained=True)
    assert torch.equal(model.network.get_parameter("conv1.0.weight"), weights["conv1.0.weight"])


def test_default_weights_that_cannot_be_fetched_come_with_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*arguments: Any, **keys: Any) -> None:
        raise URLError("no network")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", unreachable)
    with pytest.raises(BadConfigError, match=r"no network.*put https://.*shuffle.*pth into") as e:
        build(SHUFFLENET, RGB, pretrained=True)
    assert str(tmp_path / "hub" / "checkpoints") in str(e.value)


def test_a_pretrained_model_fine_tunes_on_a_small_set(
    tmp_path: Path, weights: dict[str, Tensor]
) -> None:
    path = saved(tmp_path / "w.pth", weights)
    shape = (1, 40, 40)
    labels_N = torch.arange(12) % 4
    images_NCHW = pixels(shape, 12) // 4
    for index, label in enumerate(labels_N.tolist()):
        images_NCHW[index, :, 10 * label : 10 * label + 10] += 12
    model = build(SHUFFLENET, shape, pretrained=path, backbone_lr_scale=0.3, dropout=0.0)
    optimizer = torch.optim.AdamW(
        [
            {"params": list(group.parameters.values()), "lr": 3e-3 * group.lr_scale}
            for group in model.parameter_groups()
        ]
    )
    model.train()
    losses = []
    for _ in range(10):
        loss = functional.cross_entropy(model(images_NCHW), labels_N)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
