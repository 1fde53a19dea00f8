"""Where every seed of a study comes from: a hash of the study seed, never the trial number.

Replicate k of every configuration has the same seeds, so that two configurations can be compared
seed by seed. Each random stream has its own seed, so that a new stream moves no other.
The derivation is a promise: a study recorded today is reproduced by any later version.
"""

import hashlib

STREAMS = ("init", "data_order", "augmentation", "dropout", "resplit")
"""The random streams of one trial, each with its own seed.

`resplit` divides train from val where a study asks for that in each replicate.
"""


def derive_seed(study_seed: int, replicate: int, stream: str) -> int:
    """Return the seed of one stream: the same for the same arguments, on any machine, for ever.

    Args:
        study_seed: the sweep's `seed`.
        replicate: which of the paired seeds, from 0. A sampler passes an index of its own here.
        stream: the stream's name.

    Returns:
        The first eight bytes, big end first, of the SHA-256 of `study_seed/replicate/stream`,
        without their highest bit: 0 to 2**63 - 1. Take it modulo 2**32 for NumPy's legacy
        generator.
    """
    digest = hashlib.sha256(f"{study_seed}/{replicate}/{stream}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def trial_seeds(study_seed: int, replicate: int) -> dict[str, int]:
    """Return the seed of every stream of one replicate, by stream name."""
    return {stream: derive_seed(study_seed, replicate, stream) for stream in STREAMS}


def split_seed(study_seed: int) -> int:
    """Return the seed of the split into training and validation data.

    One for the whole study: replicates repeat the training, not the split. With `resplit: true` it
    draws the test split alone.
    """
    return derive_seed(study_seed, 0, "split")
