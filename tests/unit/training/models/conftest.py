"""What these tests share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread(threads: None) -> None:
    """Compute on one thread, as a trial beside others does; small tensors gain from no more."""
    torch.set_num_threads(1)
