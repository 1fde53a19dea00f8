"""A torch module -> the bytes of one ONNX file, and what the module itself computes.

Shapes: N images, C channels, H height, W width, K classes.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import onnx
import torch
from torch import Tensor, nn

from hpo.export.bundle import ExportError

OPSET: Final = 20
"""Of ONNX 1.15 (2023), which every onnxruntime since 1.17 runs."""

INPUT: Final = "images"
OUTPUTS: Final = ("logits", "probabilities")

BATCH_SIZE: Final = 512
"""What the training evaluates with; sums differ between batch sizes in their last bits."""


class _Deployed(nn.Module):
    """A classifier that gives probabilities too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images_NCHW: Tensor) -> tuple[Tensor, Tensor]:
        logits_NK = self.model(images_NCHW)
        return logits_NK, torch.softmax(logits_NK, dim=1)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a module and its parts into evaluation mode, and each back into the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, is_training in modes:
            module.training = is_training


@torch.inference_mode()
def logits_of(model: nn.Module, images_NCHW: Tensor) -> Tensor:
    """Return the logits_NK that the module computes by itself, in evaluation mode."""
    with evaluating(model):
        return torch.cat(
            [model(batch_NCHW) for batch_NCHW in torch.split(images_NCHW, BATCH_SIZE)]
        )


def onnx_bytes(
    model: nn.Module, image_shape: tuple[int, int, int], notes: Mapping[str, str]
) -> bytes:
    """Return one ONNX file that computes what the module computes in evaluation mode.

    Its input `images` takes uint8 pixels of any number of images, its outputs are `logits` and
    `probabilities`. Equal modules give equal bytes: nothing in it tells when or where it was made.

    Args:
        model: on the CPU, from raw pixels to logits_NK; its mode does not matter and is kept.
        image_shape: channels, height, width.
        notes: texts to keep in the file, by name.

    Raises:
        ExportError: the module cannot be written so.
    """
    # A batch of two: torch.export takes a size of one for a constant.
    images_NCHW = torch.zeros((2, *image_shape), dtype=torch.uint8)
    with evaluating(model):
        try:
            program = torch.onnx.export(
                _Deployed(model).eval(),
                (images_NCHW,),
                input_names=[INPUT],
                output_names=list(OUTPUTS),
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            cause = (
                error.__cause__ or error
            )  # the exporter wraps what torch said in its own advice
            words = str(cause).strip().splitlines() or [""]
            raise ExportError(
                f"this model cannot be written as ONNX: {type(cause).__name__}: {words[0]}"
            ) from error
    if program is None:
        raise ExportError("this model cannot be written as ONNX: the exporter returned nothing")
    graph: onnx.ModelProto = program.model_proto
    _forget_origin(graph)
    for name in sorted(notes):
        graph.metadata_props.add(key=name, value=notes[name])
    onnx.checker.check_model(graph, full_check=True)
    data: bytes = graph.SerializeToString(deterministic=True)
    return data


def _forget_origin(message: Any) -> None:
    """Clear the exporter's notes, which hold source lines and the paths of this machine."""
    for field, value in list(message.ListFields()):
        if field.name in ("metadata_props", "doc_string"):
            message.ClearField(field.name)
        elif field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                _forget_origin(part)
