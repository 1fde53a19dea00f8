"""Each kind of model is written as ONNX and computes the same there."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from hpo.export.graph import logits_of, onnx_bytes
from tests.unit.training.models.networks import Shape, build, pixels

HERE = "tests.unit.training.models.networks"


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        ("simple_cnn", (1, 28, 28)),
        ("mlp", (1, 8, 8)),
        ("resnet9", (3, 32, 32)),
        ("resnet18", (3, 64, 64)),
        (f"{HERE}:small", (3, 32, 32)),
    ],
)
def test_a_model_computes_the_same_as_onnx(model: str, shape: Shape) -> None:
    check(build(model, shape, activation="silu"), shape)


def test_a_pretrained_model_that_resizes_grey_images_computes_the_same_as_onnx(
    tmp_path: Path,
) -> None:
    name, shape = "squeezenet1_1", (1, 28, 28)
    source = build(name, (3, 28, 28))
    torch.save(source.network.state_dict(), tmp_path / "w.pth")
    model = build(name, shape, pretrained=str(tmp_path / "w.pth"), freeze="backbone")
    assert model.input.image_size == 224
    check(model, shape)


def check(model: torch.nn.Module, shape: Shape) -> None:
    images = pixels(shape, 3)
    with torch.no_grad():  # as after some training: norms that are not the identity
        model.train()
        model(pixels(shape, 8))
    session = onnxruntime.InferenceSession(
        onnx_bytes(model, shape, {}), providers=["CPUExecutionProvider"]
    )
    logits, _ = session.run(["logits", "probabilities"], {"images": images.numpy()})
    np.testing.assert_allclose(logits, logits_of(model, images).numpy(), atol=1e-4)
