"""Models of torchvision and of users take our images, streams, dropout and classes."""

import copy
import math
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional
from torchvision.ops import StochasticDepth

from hpo.sweepfile.problem import SweepFileError
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA
from hpo.training.determinism import seeded_generator
from hpo.training.keys.models import torchvision_name
from hpo.training.keys.torchvision_models import TORCHVISION_MODELS
from hpo.training.models.dropout import StreamDropout
from hpo.training.models.head import DroppedLinear, head_name
from hpo.training.models.torchvision_network import lay_out_torchvision
from hpo.training.task import BadConfigError
from tests.unit.training.models.networks import SHAPES, Shape, Small, build, pixels
from tracking.checkpoints import weights_digest

HERE = "tests.unit.training.models.networks"


def problems(**keys: object) -> dict[str, str]:
    config = CLASSIFIER_SCHEMA.complete({"data": "digits", **keys})  # type: ignore[dict-item]
    return {problem.key: problem.message for problem in CLASSIFIER_SCHEMA.problems(config)}


def test_the_stored_names_and_sizes_are_those_of_torchvision() -> None:
    names = torchvision.models.list_models(module=torchvision.models)
    transforms = {
        name: torchvision.models.get_model_weights(name).DEFAULT.transforms() for name in names
    }
    found = {name: transform.crop_size[0] for name, transform in transforms.items()}
    assert dict(TORCHVISION_MODELS) == found


def test_a_model_is_known_by_its_name_before_training() -> None:
    for model in ("resnet18", "torchvision:resnet18", f"{HERE}:small", "resnet9"):
        assert problems(model=model) == {}
    assert "did you mean 'resnet18'?" in problems(model="resnet81")["model"]
    assert "did you mean 'resnet18'?" in problems(model="torchvision:resnt18")["model"]
    assert "package.module:factory" in problems(model="my model")["model"]
    assert "nowhere_at_all" in problems(model="nowhere_at_all:make")["model"]
    assert torchvision_name("torchvision:vgg11") == torchvision_name("vgg11") == "vgg11"


@pytest.mark.parametrize("name", ["resnet18", "shufflenet_v2_x0_5"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_torchvision_model_takes_every_image_size_and_grey_images(
    name: str, shape: Shape
) -> None:
    model = build(name, shape).eval()
    with torch.no_grad():
        assert model(pixels(shape)).shape == (3, 4)


def test_a_grey_image_is_the_same_in_every_channel() -> None:
    model = build("shufflenet_v2_x0_5", (1, 28, 28)).eval()
    grey = pixels((1, 28, 28))
    normalised = model.normalize(grey)
    assert normalised.shape == (3, 3, 28, 28)
    torch.testing.assert_close(normalised[:, 2:], (grey / 16 - 0.5) / 0.25)


def test_initial_weights_of_a_torchvision_model_depend_on_the_init_seed_alone() -> None:
    # that the global stream stands still is checked after every test
    digests = [
        weights_digest(build("shufflenet_v2_x0_5", init=seed).state_dict()) for seed in (1, 1, 2)
    ]
    assert digests[0] == digests[1] != digests[2]


def test_every_dropout_of_a_model_gets_the_probability_and_draws_from_its_stream() -> None:
    network = lay_out_torchvision(
        "efficientnet_b0", 4, 0.4, seeded_generator(0), seeded_generator(1), is_pretrained=False
    ).train()
    kinds = {type(module) for module in network.modules()}
    assert not kinds & {nn.Dropout, nn.Dropout2d, StochasticDepth}
    found = [module for module in network.modules() if isinstance(module, StreamDropout)]
    assert found[-1].probability == 0.4
    assert max(module.probability for module in found[:-1]) < 0.2  # stochastic depth keeps its own
    branches = found[-2].train()(torch.ones(200, 3, 2, 2)).flatten(1)
    assert torch.equal(branches.amin(dim=1), branches.amax(dim=1))  # whole branches at once
    assert 0 < (branches[:, 0] == 0).sum() < 100


def test_a_model_without_dropout_drops_before_its_last_layer() -> None:
    model = build("shufflenet_v2_x0_5", (3, 32, 32), dropout=0.5)
    head = model.network.get_submodule("fc")
    assert isinstance(head, DroppedLinear)
    assert {"network.fc.weight", "network.fc.bias"} <= set(model.state_dict())
    model.eval()
    assert torch.equal(head(torch.ones(2, 1024)), head(torch.ones(2, 1024)))
    head.train()
    assert not torch.equal(head(torch.ones(2, 1024)), head(torch.ones(2, 1024)))


def test_a_factory_gets_shape_classes_and_keys_and_its_dropouts_are_taken_over() -> None:
    model = build(f"{HERE}:small", (3, 32, 32), dropout=0.3, init=3)
    assert isinstance(model.network, Small)
    drops = [module for module in model.modules() if isinstance(module, StreamDropout)]
    assert [module.probability for module in drops] == [0.3, 0.3]
    digests = [
        weights_digest(build(f"{HERE}:small", (3, 32, 32), init=seed).state_dict())
        for seed in (3, 4)
    ]
    assert weights_digest(model.state_dict()) == digests[0] != digests[1]
    assert model.training


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("failing", "which raised KeyError: 'widht'"),
        ("missing", "which raised AttributeError"),
        ("no_network", "which returned str, must be a torch.nn.Module"),
        ("headless", r"result for one image is \(1, 64\), must be \(1, 4\)"),
        ("strange_dropout", "uses AlphaDropout, which cannot draw"),
    ],
)
def test_a_factory_that_does_not_fit_is_refused_in_a_sentence(function: str, message: str) -> None:
    with pytest.raises(BadConfigError, match=message):
        build(f"{HERE}:{function}")


def test_images_that_are_too_small_or_of_other_channels_are_refused_in_a_sentence() -> None:
    with pytest.raises(BadConfigError, match="squeezenet1_1, which cannot take images of 1 x 8 x"):
        build("squeezenet1_1")
    with pytest.raises(BadConfigError, match="images of 1 or 3 channels; these have 4"):
        build("resnet18", (4, 32, 32))


def test_the_last_layer_is_found_wherever_it_is() -> None:
    with torch.device("meta"):
        for name, expected in (
            ("mobilenet_v3_small", "classifier.3"),
            ("squeezenet1_1", "classifier.1"),
            ("vit_b_32", "heads.head"),
            ("densenet121", "classifier"),
        ):
            assert head_name(torchvision.models.get_model(name)) == expected
    assert head_name(build("mlp").network) == "layers.7"
    assert head_name(build().network) == "head"
    assert head_name(nn.Flatten()) is None


def backbone(model: nn.Module) -> dict[str, torch.Tensor]:
    return {
        name: tensor.clone()
        for name, tensor in model.state_dict().items()
        if not name.startswith(("network.fc.", "network.head."))
    }


@pytest.mark.parametrize("name", ["simple_cnn", "shufflenet_v2_x0_5"])
def test_a_frozen_backbone_keeps_every_bit_and_the_head_learns(name: str) -> None:
    shape = (3, 32, 32)
    model = build(name, shape, freeze="backbone", dropout=0.0)
    before, head = backbone(model), copy.deepcopy(model.state_dict())
    (group,) = model.parameter_groups()
    assert group.name == "head"
    assert {weight.split(".")[1] for weight in group.parameters} <= {"head", "fc"}
    optimizer = torch.optim.SGD(group.parameters.values(), lr=0.1)
    model.train()
    assert not any(
        module.training for module in model.modules() if isinstance(module, nn.BatchNorm2d)
    )
    functional.cross_entropy(model(pixels(shape, 8)), torch.arange(8) % 4).backward()
    optimizer.step()
    after = backbone(model)
    assert all(torch.equal(after[key], before[key]) for key in before)
    changed = [
        key for key, tensor in model.state_dict().items() if not torch.equal(tensor, head[key])
    ]
    assert len(changed) == 2
    assert any("trained, those of the last layer" in note for note in model.notes)


def test_the_backbone_learns_at_its_share_of_the_rate() -> None:
    model = build("shufflenet_v2_x0_5", (3, 32, 32), backbone_lr_scale=0.1)
    backbone_group, head_group = model.parameter_groups()
    assert (backbone_group.name, backbone_group.lr_scale) == ("backbone", 0.1)
    assert (head_group.name, head_group.lr_scale) == ("head", 1.0)
    assert set(head_group.parameters) == {"network.fc.weight", "network.fc.bias"}
    names = {*backbone_group.parameters, *head_group.parameters}
    assert names == {name for name, _ in model.named_parameters()}
    (alone,) = build().parameter_groups()
    assert (alone.name, alone.lr_scale) == ("all", 1.0)


def test_resnet18_learns_a_small_set_of_images() -> None:
    shape = (3, 32, 32)
    generator = torch.Generator().manual_seed(0)
    labels_N = torch.arange(16) % 4
    images_NCHW = torch.randint(0, 6, (16, *shape), dtype=torch.uint8, generator=generator)
    for index, label in enumerate(labels_N.tolist()):
        images_NCHW[index, label % 3, 8 * (label // 3) :] += 10
    model = build("resnet18", shape, backbone_lr_scale=0.5)
    groups = [
        {"params": list(group.parameters.values()), "lr": 1e-3 * group.lr_scale}
        for group in model.parameter_groups()
    ]
    optimizer = torch.optim.AdamW(groups)
    model.train()
    losses = []
    for _ in range(8):
        loss = functional.cross_entropy(model(images_NCHW), labels_N)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(4), abs=0.7)
    assert losses[-1] < 0.2


def test_checking_a_model_by_name_needs_no_file(tmp_path: Path) -> None:
    found = problems(pretrained=str(tmp_path / "none.pth"))
    assert "which is no file here" in found["pretrained"]
    assert "is no torchvision model" in problems(pretrained=True)["pretrained"]
    assert problems(model="resnet18", pretrained=True) == {}
    assert "must be true, false or the path" in problems(pretrained=3)["pretrained"]


def test_pretrained_is_written_as_a_flag_or_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.pth").touch()
    text = ""
    for written, expected in (("true", True), ("false", False), ("w.pth", "w.pth")):
        text = f"baseline: {{data: digits, model: resnet18, pretrained: {written}}}\n"
        text += "vary: {backbone_lr_scale: [0.1, 1.0]}\n"
        sweep = parse_sweep(text, file="s.yaml", task=CLASSIFIER_SCHEMA)
        assert sweep.baseline["pretrained"] == expected
    with pytest.raises(SweepFileError, match=r"s.yaml:1: baseline.pretrained: .*must be text"):
        parse_sweep(text.replace("w.pth", "3"), file="s.yaml", task=CLASSIFIER_SCHEMA)
