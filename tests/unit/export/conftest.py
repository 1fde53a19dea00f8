"""What the tests of the export share."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from hpo.export.bundle import Bundle
from hpo.export.exporter import export_bundle
from tests.unit.export.models import Exportable, trained
from tracking.checkpoints import FileCheckpointStore


@dataclass(frozen=True, kw_only=True)
class Exported:
    source: Exportable
    bundle: Bundle


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Put the number of threads back, which a trial sets."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def digits_cnn(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Return a trained simple_cnn and its bundle; whoever changes the folder works on a copy."""
    folder = tmp_path_factory.mktemp("export")
    source = trained("simple_cnn", folder / "cache", FileCheckpointStore(folder, "trial"))
    bundle = export_bundle(
        source.model, source.validation, source.description, folder / "digits-best"
    )
    return Exported(source=source, bundle=bundle)
