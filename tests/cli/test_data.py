"""`hpo data` as users meet it."""

import json
from pathlib import Path

from PIL import Image

from tests.cli.test_verbs import hpo

SWEEP = """
study: pictures
baseline: {data: digits}
vary: {lr: [1e-3, 1e-2]}
"""


def test_the_data_of_a_sweep_is_shown_and_drawn(tmp_path: Path) -> None:
    (tmp_path / "pictures.yaml").write_text(SWEEP)
    shown = hpo("data", "pictures.yaml", cwd=tmp_path).stdout
    assert "digits: 1797 images of 8 x 8 pixels" in shown
    assert "exact duplicates between splits: none" in shown
    assert "all      1257   270    270" in shown
    assert max(map(len, shown.splitlines())) <= 100
    with Image.open(tmp_path / "pictures-data.png") as sheet:
        assert sheet.format == "PNG"
    told = hpo("data", "pictures.yaml", "--json", "--sheet", "s.png", cwd=tmp_path).stdout
    found = json.loads(told)
    assert found["study"] == "pictures"
    assert [row["train"] for row in found["classes"]][:2] == [124, 128]
    assert found["sheet"] == str(tmp_path / "s.png")


def test_data_that_is_not_there_is_told_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "pictures.yaml").write_text(SWEEP)
    result = hpo("data", "pictures.yaml", "--set", "data=folder:none", cwd=tmp_path, is_ok=False)
    assert result.returncode == 2
    assert "data: names none, which is no folder here" in result.stderr
