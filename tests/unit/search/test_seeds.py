"""Seeds are a promise: a recorded study must be reproducible by any later version."""

from hypothesis import given
from hypothesis import strategies as st

from hpo.search.seeds import STREAMS, derive_seed, split_seed, trial_seeds

GOLDEN_0_0 = {
    "init": 6840261872783522198,
    "data_order": 9104425032889843853,
    "augmentation": 526019442474623966,
    "dropout": 412003317172642043,
    "resplit": 8871981442946397063,
}
GOLDEN_7_2 = {
    "init": 6352520940816266510,
    "data_order": 8444833711917061107,
    "augmentation": 4087720342841120062,
    "dropout": 8864887236508876280,
    "resplit": 5094065740849292062,
}
GOLDEN_SPLIT = 7652025240298758280
GOLDEN_NEGATIVE = 7459563819186372309


def test_golden_seeds_never_change() -> None:
    assert trial_seeds(0, 0) == GOLDEN_0_0
    assert trial_seeds(7, 2) == GOLDEN_7_2
    assert split_seed(0) == GOLDEN_SPLIT
    assert derive_seed(-1, 3, "tpe/0") == GOLDEN_NEGATIVE


@given(st.integers(-(2**70), 2**70), st.integers(0, 10**6), st.text(max_size=20))
def test_seeds_fit_every_generator(study_seed: int, replicate: int, stream: str) -> None:
    assert 0 <= derive_seed(study_seed, replicate, stream) < 2**63


def test_streams_replicates_and_studies_all_differ() -> None:
    seeds = [
        derive_seed(study, replicate, stream)
        for study in range(20)
        for replicate in range(20)
        for stream in (*STREAMS, "split")
    ]
    assert len(set(seeds)) == len(seeds)


def test_the_split_is_one_for_all_replicates() -> None:
    assert split_seed(3) not in trial_seeds(3, 0).values()
    assert split_seed(3) == derive_seed(3, 0, "split")
