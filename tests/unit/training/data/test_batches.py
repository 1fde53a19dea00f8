"""Batches are the same however images are held, and whoever reads them."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hpo.domain.search_space import Value
from hpo.training.data import dataset as loading
from hpo.training.data.batch import Examples, batch_bounds
from hpo.training.data.dataset import Dataset, load_data
from hpo.training.data.resident import Split
from hpo.training.data.sampling import Sampling
from hpo.training.data.streaming import LoaderSettings, Stream, StreamedSplit, measured
from hpo.training.determinism import seeded_generator
from tests.unit.training.data.sets import config


def load(cache_dir: Path, **changes: Value) -> Dataset:
    return load_data(config(**changes), cache_dir, 0, "cpu")


def epoch(split: Examples, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    order_N = torch.randperm(len(split), generator=seeded_generator(seed))
    bounds = list(batch_bounds(len(split), 100))
    return [(b.images_NCHW, b.labels_N) for b in split.batches(bounds, order_N)]


def same(left: list[tuple[Tensor, Tensor]], right: list[tuple[Tensor, Tensor]]) -> bool:
    return all(
        torch.equal(a, c) and torch.equal(b, d) for (a, b), (c, d) in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_streamed_batches_equal_resident_ones_for_any_number_of_workers(
    cache_dir: Path, workers: int
) -> None:
    resident = load(cache_dir, loader__mode="resident")
    streamed = load(cache_dir, loader__mode="streaming", loader__workers=workers)
    assert isinstance(resident["train"], Split)
    assert isinstance(streamed["train"], StreamedSplit)
    for seed in (0, 1):  # a second epoch, by the same workers
        assert same(epoch(resident["train"], seed), epoch(streamed["train"], seed))
        val = [next(iter(d["val"].batches([(3, 9)]))) for d in (resident, streamed)]
        assert torch.equal(val[0].images_NCHW, val[1].images_NCHW)
        assert torch.equal(val[0].labels_N, val[1].labels_N)
    assert torch.equal(resident["val"].images_NCHW, streamed["val"].images_NCHW)
    assert torch.equal(resident["val"].labels_N, streamed["val"].labels_N)


def test_workers_that_do_not_persist_read_the_same(cache_dir: Path) -> None:
    changes: dict[str, Value] = {"loader__persistent_workers": False, "loader__prefetch": 5}
    streamed = load(cache_dir, loader__mode="streaming", loader__workers=1, **changes)
    resident = load(cache_dir)
    for seed in (0, 1):
        assert same(epoch(resident["train"], seed), epoch(streamed["train"], seed))


def test_an_epoch_that_is_left_early_leaves_nothing_behind(cache_dir: Path) -> None:
    streamed = load(cache_dir, loader__mode="streaming", loader__workers=2)
    whole = epoch(streamed["train"])
    batches = streamed["train"].batches([(0, 5)] * 40)
    next(batches)
    del batches
    assert same(epoch(streamed["train"]), whole)


def test_size_decides_how_images_are_held_and_the_log_says_so(
    cache_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_bytes = 1797 * 64
    for free_bytes, kind, mode in (
        (4 * num_bytes, Split, "resident"),
        (4 * num_bytes - 4, StreamedSplit, "streaming"),
    ):
        monkeypatch.setattr(loading, "_free_bytes", lambda _device, free=free_bytes: free)
        dataset = load(cache_dir)
        assert isinstance(dataset["train"], kind)
        assert dataset.remarks[0].startswith(f"{mode}: 0.115 MB of images, 0.46 MB free on cpu")
    streamed = load(cache_dir)  # the last was the smallest memory
    assert "worker(s): a batch took" in streamed.remarks[1]
    forced = load(cache_dir, loader__mode="resident")
    assert forced.remarks[0].startswith("resident, as asked")


def settings(workers: int) -> LoaderSettings:
    return LoaderSettings(
        workers=workers,
        prefetch=2,
        pin_memory=False,
        persistent_workers=False,
        non_blocking=False,
    )


def draw(index: int) -> Tensor:
    """Return what a careless reader would draw: from torch's state, and from NumPy's."""
    del index
    return torch.cat([torch.rand(1), torch.from_numpy(np.random.rand(1)).float()])  # noqa: NPY002


def drawn(seed: int) -> Tensor:
    return torch.cat(list(Stream(draw, settings(2), seed).read([[0, 1], [2, 3], [4, 5]])))


def test_workers_have_random_states_of_their_own_that_their_seed_decides() -> None:
    before = torch.get_rng_state()
    one, again, other = drawn(1), drawn(1), drawn(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    for numbers in one.T:
        assert len(numbers.unique()) == 6


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_the_number_of_workers_is_measured() -> None:
    parent = os.getpid()

    def slow_here(index: int) -> Tensor:
        if os.getpid() == parent:
            sum(range(60_000))
        return torch.full((1,), index)

    def fast(index: int) -> Tensor:
        return torch.full((1,), index)

    chosen, sentence = measured(slow_here, settings(-1), range(400), 16)
    assert chosen.workers == 2
    assert "ms with 0" in sentence
    assert "ms with 2" in sentence
    chosen, _ = measured(fast, settings(-1), range(400), 16)
    assert chosen.workers == 0


def test_uniform_sampling_takes_every_image_once() -> None:
    sampling = Sampling("uniform", torch.arange(100) % 3)
    order_N = sampling.order(seeded_generator(5))
    assert torch.equal(order_N, torch.randperm(100, generator=seeded_generator(5)))


def test_balanced_sampling_shows_every_class_and_every_image_of_it_equally_often() -> None:
    labels_N = torch.tensor([0] * 900 + [1] * 90 + [2] * 10)
    sampling = Sampling("balanced", labels_N)
    generator = seeded_generator(0)
    orders = [sampling.order(generator) for _ in range(60)]
    assert {len(order_N) for order_N in orders} == {1000}
    assert not torch.equal(orders[0], orders[1])
    drawn_N = torch.cat(orders)
    counts = labels_N[drawn_N].bincount().double()
    # 60 000 draws with p = 1/3: a standard deviation of 115
    assert ((counts - 20_000).abs() < 5 * 115).all()
    rare = drawn_N[drawn_N >= 990].bincount(minlength=1000)[990:].double()
    assert ((rare - 2_000).abs() < 5 * 45).all()
    assert torch.equal(sampling.order(seeded_generator(3)), sampling.order(seeded_generator(3)))


@pytest.mark.parametrize(
    ("num_examples", "batch_size", "expected"),
    [
        (10, 4, [(0, 4), (4, 8)]),
        (9, 4, [(0, 4), (4, 8)]),
        (8, 4, [(0, 4), (4, 8)]),
        (3, 4, [(0, 3)]),
    ],
)
def test_the_last_batch_can_be_left_out(
    num_examples: int, batch_size: int, expected: list[tuple[int, int]]
) -> None:
    assert list(batch_bounds(num_examples, batch_size, drop_last=True)) == expected
