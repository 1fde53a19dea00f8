"""The page in a bundle: what it is, what goes in, how to recheck it."""

from collections.abc import Sequence

from hpo.export.bundle import MANIFEST, MODEL, VALIDATION, WEIGHTS

SCRIPT = f"""\
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{MODEL}", providers=["CPUExecutionProvider"])
data = np.load("{VALIDATION}")
batches = np.array_split(data["images"], len(data["images"]) // 500 + 1)
logits = np.concatenate([session.run(["logits"], {{"images": part}})[0] for part in batches])
print((logits.argmax(axis=1) == data["labels"]).mean())
"""
"""Prints the accuracy on the bundle's validation images; runs in the bundle's folder."""


def readme_text(
    title: str,
    image_shape: tuple[int, int, int],
    max_pixel: int,
    labels: Sequence[str],
    accuracy_sentence: str,
) -> str:
    """Return the page.

    Args:
        title: the trial ID.
        image_shape: channels, height, width.
        max_pixel: the largest raw pixel value.
        labels: by class index.
        accuracy_sentence: what the script below prints and what was reported.
    """
    channels, height, width = image_shape
    return f"""\
# {title}

An image classifier that runs without the project that trained it.

- `{MODEL}`: one file, nothing beside it is needed. Input `images`: uint8, shape
  (any number, {channels}, {height}, {width}), raw pixels from 0 to {max_pixel}; scaling and
  normalisation are inside. Outputs `logits` and `probabilities`: float32, one column for each
  class: {", ".join(labels)}.
- `{WEIGHTS}`: the weights by name.
- `{VALIDATION}`: `images` and `labels` to recheck the accuracy with.
- `{MANIFEST}`: where the model comes from, what it achieved, the sha256 of every file.

## Recheck it

With numpy and onnxruntime alone, in this folder:

```python
{SCRIPT}```

{accuracy_sentence}
"""
