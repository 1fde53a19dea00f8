"""What the tests of the training share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tracking.checkpoints import FileCheckpointStore


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that all tests fill together."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def store(tmp_path: Path) -> FileCheckpointStore:
    return FileCheckpointStore(tmp_path, "trial")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Put the number of threads back, which a trial sets."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
