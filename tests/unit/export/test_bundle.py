import shutil
from pathlib import Path

import pytest

from hpo.export.bundle import LISTED, MANIFEST, BundleDamagedError, open_bundle
from tests.unit.export.conftest import Exported


@pytest.fixture
def copy(digits_cnn: Exported, tmp_path: Path) -> Path:
    return shutil.copytree(digits_cnn.bundle.folder, tmp_path / "copy")


@pytest.mark.parametrize("name", [*LISTED, MANIFEST])
def test_no_flipped_bit_of_any_file_passes(copy: Path, name: str) -> None:
    whole = (copy / name).read_bytes()
    for index in range(40):
        position, bit = divmod(index * 7919 % (8 * len(whole)), 8)
        damaged = bytearray(whole)
        damaged[position] ^= 1 << bit
        (copy / name).write_bytes(damaged)
        with pytest.raises(BundleDamagedError, match=name):
            open_bundle(copy)
    (copy / name).write_bytes(whole)
    open_bundle(copy)


@pytest.mark.parametrize("name", [*LISTED, MANIFEST])
@pytest.mark.parametrize("is_missing", [False, True])
def test_a_file_that_is_cut_or_missing_is_seen(copy: Path, name: str, *, is_missing: bool) -> None:
    path = copy / name
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BundleDamagedError, match=name):
        open_bundle(copy)
