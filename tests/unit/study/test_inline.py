import sys
from pathlib import Path

import pytest

from hpo.errors import HpoError
from hpo.study.home import Home
from hpo.study.inline import train_inline
from hpo.sweepfile.sweep import parse_sweep
from hpo.training.config import CLASSIFIER_SCHEMA

SWEEP = """
study: small
baseline: {data: digits, model: MODEL, epochs: 2, batch_size: 128, lr: LR}
vary:
  lr: [1e-3, 1e-2]
execution: {devices: [cpu], workers: 2}
"""

FAULTS = "tests.unit.training.models_with_faults"


def trained(
    home: Path, *, model: str = "mlp", lr: str = "1e-3", is_debugging: bool = False
) -> list[str]:
    text = SWEEP.replace("MODEL", model).replace("LR", lr)
    sweep = parse_sweep(text, file="small.yaml", task=CLASSIFIER_SCHEMA)
    lines: list[str] = []
    train_inline(sweep, Home(home), is_debugging=is_debugging, say=lines.append)
    return lines


@pytest.mark.usefixtures("global_streams")
@pytest.mark.parametrize("is_debugging", [False, True])
def test_each_epoch_is_told_and_nothing_is_recorded(tmp_path: Path, is_debugging: bool) -> None:
    lines = trained(tmp_path, is_debugging=is_debugging)
    assert [line.split(":")[0].strip() for line in lines] == ["epoch 1", "epoch 2"]
    assert "val_loss" in lines[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.usefixtures("global_streams")
def test_debugging_names_the_first_layer_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(HpoError, match=r"in epoch 1, network\.layers\.\d \(Linear\(.*infinity"):
        trained(tmp_path, lr="1e12", is_debugging=True)
    with pytest.raises(HpoError, match=r"in epoch 1, network\.3 \(Linear.*its weight holds NaN"):
        trained(tmp_path, model=f"{FAULTS}:with_nan", is_debugging=True)


@pytest.mark.usefixtures("global_streams")
def test_without_it_the_way_to_the_layer_is_told(tmp_path: Path) -> None:
    with pytest.raises(HpoError, match=r"diverged: .* nan .*--debug names the first layer"):
        trained(tmp_path, lr="1e12")


@pytest.mark.usefixtures("global_streams")
def test_what_the_training_raises_is_printed_in_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(HpoError, match="cannot take images"):
        trained(tmp_path, model=f"{FAULTS}:wrong_shape")
    with pytest.raises(HpoError, match=r"RuntimeError: nothing goes .*see the traceback"):
        trained(tmp_path, model=f"{FAULTS}:raising_in_training")
    printed = capsys.readouterr()
    assert "Traceback" in printed.err
    assert "models_with_faults.py" in printed.err
    assert printed.out == ""
    assert sys.stdout is not None
