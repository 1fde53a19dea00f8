import copy
from typing import Any

import pytest

from hpo.export.bundle import ExportError
from hpo.export.parity import Reported, judge


def measured(num_images: int = 2000, num_correct: int = 1800, **changes: Any) -> dict[str, Any]:
    batch = {
        "batch_size": 64,
        "num_images": num_images,
        "max_abs_difference": 1e-6,
        "max_abs_difference_of_probabilities": 1e-7,
        "num_other_top": 0,
        "num_other_top_in_ties": 0,
        "num_correct": num_correct,
    }
    whole = {
        "num_images": num_images,
        "num_correct_of_checkpoint": num_correct,
        "num_ties": changes.pop("num_ties", 0),
        "num_ties_of_tf32": changes.pop("num_ties_of_tf32", 0),
        "batches": [batch | changes],
    }
    return copy.deepcopy(whole)


CPU = Reported(accuracy=0.9, device="cpu")
GPU = Reported(accuracy=0.9, device="cuda:0")


def test_an_equal_model_passes() -> None:
    judge(measured(), CPU)


def test_an_image_whose_top_logits_tie_may_be_decided_either_way() -> None:
    judge(
        measured(200, 181, num_other_top=1, num_other_top_in_ties=1, num_ties=3),
        CPU,
    )


def test_ties_excuse_one_image_and_no_more() -> None:
    with pytest.raises(
        ExportError, match=r"0\.910000, reported is 0\.900000.* at most 1 image may"
    ):
        judge(measured(200, 182, num_ties=3), CPU)


def test_one_class_that_differs_is_too_many_among_few_images() -> None:
    with pytest.raises(ExportError, match=r"for 1 images .* at most 0"):
        judge(measured(999, 899, num_other_top=1), CPU)


@pytest.mark.parametrize(("num_others", "is_refused"), [(2, False), (3, True)])
def test_one_class_in_a_thousand_may_differ_among_many_images(
    num_others: int, *, is_refused: bool
) -> None:
    found = measured(2000, 1800, num_other_top=num_others)
    if not is_refused:
        judge(found, CPU)
        return
    with pytest.raises(ExportError, match=r"for 3 images .* at most 2"):
        judge(found, CPU)


def test_a_gpus_rounding_excuses_as_many_images_as_are_near_it() -> None:
    judge(measured(2000, 1796, num_ties_of_tf32=4), GPU)
    with pytest.raises(ExportError, match="at most 4 images may differ"):
        judge(measured(2000, 1795, num_ties_of_tf32=4), GPU)
    with pytest.raises(ExportError, match="at most 0 images may differ"):
        judge(measured(2000, 1796, num_ties_of_tf32=4), CPU)


@pytest.mark.parametrize("key", ["max_abs_difference", "max_abs_difference_of_probabilities"])
@pytest.mark.parametrize("value", [1.1e-4, None])
def test_a_difference_that_is_large_or_not_finite_is_refused(
    key: str, value: float | None
) -> None:
    found = measured()
    found["batches"][0][key] = value
    with pytest.raises(ExportError, match=r"differ from|not finite"):
        judge(found, CPU)
