"""What every test gets: a process that it must leave as found, and nothing of the user's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surroundings import Surroundings, restore_streams

for name in [name for name in os.environ if name.startswith(("HPO_", "MLFLOW_"))]:
    if not name.startswith("HPO_TEST_"):  # what a person set for the tests
        del os.environ[name]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # no test speaks to another machine


@pytest.fixture(autouse=True)
def leaves_no_trace() -> Iterator[None]:
    """Fail a test that leaks a variable, a folder, a thread, a process or a random stream."""
    before = Surroundings.now()
    yield
    leaks = before.leaks()
    before.restore()
    if leaks:
        pytest.fail("this test leaked: " + "; ".join(leaks), pytrace=False)


@pytest.fixture
def global_streams() -> Iterator[None]:
    """Let a test seed and draw from the global random streams; they are put back after it."""
    import torch  # loaded now, so that its state before the test is known

    before = Surroundings.now().streams
    num_threads = torch.get_num_threads()
    yield
    restore_streams(before)
    torch.set_num_threads(num_threads)
    torch.use_deterministic_algorithms(mode=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a home of the test's own, which `HPO_HOME` names."""
    path = tmp_path / "runs"
    path.mkdir()
    monkeypatch.setenv("HPO_HOME", str(path))
    return path
