import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch

from hpo.export import exporter
from hpo.export.bundle import LISTED, MANIFEST, ExportError, open_bundle
from hpo.export.exporter import export_bundle
from hpo.export.graph import onnx_bytes
from tests.unit.export.conftest import Exported
from tests.unit.export.models import (
    ChangedByExport,
    DecidesByNumbers,
    Exportable,
    OtherWeights,
    accuracy_by_readme,
    contents,
    drawn,
    shapes_by_batch,
)


def export(source: Exportable, destination: Path, **changes: Any) -> Path:
    changed = dataclasses.replace(source, **changes)
    return export_bundle(
        changed.model, changed.validation, changed.description, destination
    ).folder


@pytest.fixture
def copy(digits_cnn: Exported, tmp_path: Path) -> Path:
    """Return a copy of the bundle, somewhere else and under another name."""
    return shutil.copytree(digits_cnn.bundle.folder, tmp_path / "moved" / "other name")


def test_a_stranger_gets_the_reported_accuracy(digits_cnn: Exported, copy: Path) -> None:
    assert accuracy_by_readme(copy) == digits_cnn.source.description.reported.accuracy


def test_a_bundle_opens_where_it_was_moved_to(digits_cnn: Exported, copy: Path) -> None:
    assert open_bundle(copy).manifest == digits_cnn.bundle.manifest


def test_a_bundle_holds_one_model_file_and_nothing_strange(digits_cnn: Exported) -> None:
    assert set(contents(digits_cnn.bundle.folder)) == {*LISTED, MANIFEST}
    model = onnx.load(digits_cnn.bundle.folder / "model.onnx", load_external_data=False)
    external = onnx.TensorProto.DataLocation.EXTERNAL
    assert all(tensor.data_location != external for tensor in model.graph.initializer)


def test_nothing_is_left_beside_a_bundle(digits_cnn: Exported) -> None:
    hidden = [path.name for path in digits_cnn.bundle.folder.parent.glob(".*")]
    assert hidden == []


def test_the_model_file_names_no_place_and_no_source_line(digits_cnn: Exported) -> None:
    data = (digits_cnn.bundle.folder / "model.onnx").read_bytes()
    assert b".py" not in data
    assert str(Path(exporter.__file__).parents[2]).encode() not in data


def test_the_manifest_says_what_goes_in_and_how_near_it_came(digits_cnn: Exported) -> None:
    manifest = digits_cnn.bundle.manifest
    assert manifest["input"]["shape"] == ["batch", 1, 8, 8]
    assert manifest["input"]["range"] == [0, 16]
    assert manifest["labels"] == list("0123456789")
    assert manifest["study"] == {"verdict": "holds"}
    batches = manifest["parity"]["batches"]
    assert [batch["batch_size"] for batch in batches] == [1, 3, 64, 512]
    assert all(batch["max_abs_difference"] <= 1e-4 for batch in batches)
    assert all(batch["num_images"] == manifest["validation"]["num_images"] for batch in batches)


def test_the_weights_are_the_models(digits_cnn: Exported) -> None:
    weights = safetensors.torch.load_file(digits_cnn.bundle.folder / "model.safetensors")
    expected = digits_cnn.source.model.state_dict()
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    ("model", "image_shape"),
    [("mlp", (3, 12, 12)), ("simple_cnn", (3, 32, 32))],
)
def test_every_model_takes_any_number_of_images(
    model: str, image_shape: tuple[int, int, int], tmp_path: Path
) -> None:
    folder = export(drawn(model, image_shape), tmp_path / "best")
    assert shapes_by_batch(folder, image_shape) == {
        str(batch): [[[batch, 5], "float32"], [[batch, 5], "float32"]] for batch in (1, 3, 64)
    }


def test_equal_models_give_equal_files(digits_cnn: Exported, tmp_path: Path) -> None:
    again = export(digits_cnn.source, tmp_path / "again")
    before = contents(digits_cnn.bundle.folder)
    assert {name for name, data in contents(again).items() if data != before[name]} <= {MANIFEST}


def test_a_model_in_training_mode_is_exported_in_evaluation_mode_and_left_as_it_was(
    digits_cnn: Exported,
) -> None:
    model = digits_cnn.source.model
    expected = onnx_bytes(model, (1, 8, 8), {})
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train()
    model.get_submodule("network.features.1").eval()  # a frozen batch norm stays frozen
    modes = [module.training for module in model.modules()]
    try:
        assert onnx_bytes(model, (1, 8, 8), {}) == expected
        assert [module.training for module in model.modules()] == modes
    finally:
        model.eval()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.fixture
def mlp() -> Exportable:
    return drawn("mlp", (1, 8, 8))


@pytest.mark.parametrize("is_old_there", [False, True])
def test_a_graph_that_computes_something_else_is_refused_and_nothing_changes(
    mlp: Exportable, digits_cnn: Exported, tmp_path: Path, *, is_old_there: bool
) -> None:
    destination = tmp_path / "best"
    if is_old_there:
        shutil.copytree(digits_cnn.bundle.folder, destination)
    with pytest.raises(ExportError, match=r"logits differ .* by 0\.000[45]\d* .* at most 0\.0001"):
        export(mlp, destination, model=ChangedByExport(mlp.model, 5e-4))
    left = [destination] if is_old_there else []
    assert list(tmp_path.iterdir()) == left
    if is_old_there:
        assert contents(destination) == contents(digits_cnn.bundle.folder)


def test_a_graph_whose_numbers_are_not_finite_is_refused(mlp: Exportable, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="not finite"):
        export(mlp, tmp_path / "best", model=ChangedByExport(mlp.model, float("nan")))


def test_a_model_that_decides_by_its_numbers_is_refused_in_one_line(
    mlp: Exportable, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"^this model cannot be written as ONNX: [^\n\x1b]+$"):
        export(mlp, tmp_path / "best", model=DecidesByNumbers(mlp.model))
    assert list(tmp_path.iterdir()) == []


def test_weights_that_are_not_those_reported_on_are_refused(
    digits_cnn: Exported, tmp_path: Path
) -> None:
    wrong = OtherWeights(digits_cnn.source.model)
    with pytest.raises(ExportError, match="reported is"):
        export(digits_cnn.source, tmp_path / "best", model=wrong)
    assert list(tmp_path.iterdir()) == []


def test_a_reported_accuracy_that_is_one_image_off_is_refused(
    mlp: Exportable, tmp_path: Path
) -> None:
    reported = dataclasses.replace(
        mlp.description.reported, accuracy=mlp.description.reported.accuracy + 1 / 70
    )
    description = dataclasses.replace(mlp.description, reported=reported)
    with pytest.raises(ExportError, match="at most 0 images may differ"):
        export(mlp, tmp_path / "best", description=description)


def test_logits_of_another_number_of_classes_are_refused(
    digits_cnn: Exported, mlp: Exportable, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match=r"must be \(270, 10\)"):
        export(digits_cnn.source, tmp_path / "best", model=mlp.model)


def test_a_number_that_is_not_finite_is_refused_before_anything_is_published(
    mlp: Exportable, tmp_path: Path
) -> None:
    description = dataclasses.replace(mlp.description, sections={"study": {"mean": float("inf")}})
    with pytest.raises(ExportError, match="JSON"):
        export(mlp, tmp_path / "best", description=description)
    assert list(tmp_path.iterdir()) == []


def test_a_large_validation_split_is_cut_and_the_manifest_and_the_page_say_so(
    mlp: Exportable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "MAX_VALIDATION_BYTES", 64 * 50)
    folder = export(mlp, tmp_path / "best")
    validation = open_bundle(folder).manifest["validation"]
    assert (validation["num_images"], validation["num_images_of_split"]) == (50, 70)
    assert accuracy_by_readme(folder) == validation["accuracy"]
    assert "on all 70, of which these are the first" in (folder / "README.md").read_text()
    with np.load(folder / "validation.npz") as data:
        assert data["images"].dtype == np.uint8
        assert data["labels"].dtype == np.int64
        assert np.array_equal(data["images"], mlp.validation.images_NCHW[:50].numpy())
