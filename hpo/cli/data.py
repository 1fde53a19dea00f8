"""`hpo data`: what a sweep trains on."""

from pathlib import Path
from typing import Any

import click

from hpo.cli.options import file_argument, home_option, json_option, set_option
from hpo.study.home import Home


@click.command()
@file_argument
@set_option
@click.option(
    "--sheet",
    type=click.Path(path_type=Path, dir_okay=False),
    help="PNG file for the sample sheet; STUDY-data.png without it.",
)
@home_option
@json_option
def command(
    file: Path,
    overrides: tuple[str, ...],
    sheet: Path | None,
    home: Home,
    is_json: bool,  # noqa: FBT001
) -> None:
    """Look at the data of the sweep in FILE before training on it.

    Counts every class, draws up to 100 images of each on a sheet, and names duplicates between the
    splits and labels that are likely wrong.
    """
    from hpo.cli.output import answer_json, note
    from hpo.study.data_view import view_data
    from hpo.study.intake import read_sweep_file

    sweep = read_sweep_file(file, overrides, None).sweep
    path = sheet or Path(f"{sweep.study}-data.png")
    note(f"looking at {sweep.baseline['data']}")
    found = view_data(sweep, home.create(), path)
    if is_json:
        answer_json({"study": sweep.study, **found})
        return
    _show({**found, "sheet": path})


def _show(found: dict[str, Any]) -> None:
    from hpo.cli.output import answer, answer_table, size

    channels, height, width = found["image_shape"]
    num_images = found["num_train"] + found["num_val"] + found["num_test"]
    answer(
        f"{found['data']}: {num_images} images of {width} x {height} pixels, {channels}"
        f" channel(s), {size(found['num_bytes'])} decoded; fingerprint {found['fingerprint'][:12]}"
    )
    is_counted = found["target_kind"] in ("class", "multilabel")
    rows = [
        [row["name"], *(_shown(row[part]) for part in ("train", "val", "test"))]
        for row in found["classes"]
    ]
    if is_counted:
        rows.append(["all", found["num_train"], found["num_val"], found["num_test"]])
    what = "class" if is_counted else "target (means)"
    answer_table([what, "train", "val", "test"], rows, numeric=[1, 2, 3])
    answer("")
    answer(f"sample sheet: {found['sheet']}, {found['num_drawn']} training images")
    _show_bad(found)
    for kind in ("exact", "near"):
        _show_duplicates(found, kind)
    if found["labels"] is not None:
        _show_labels(found["labels"])


def _show_bad(found: dict[str, Any]) -> None:
    from hpo.cli.output import answer, answer_table

    if found["num_bad_images"]:
        answer(f"images that cannot be decoded: {found['num_bad_images']}")
        answer_table(
            ["image", "reason"], [[bad["name"], bad["reason"]] for bad in found["bad_images"]]
        )


def _show_duplicates(found: dict[str, Any], kind: str) -> None:
    from hpo.cli.output import answer, answer_table

    count = found[f"num_{kind}_duplicates"]
    answer(f"{kind} duplicates between splits: {count or 'none'}")
    if count:
        answer_table(
            ["splits", "image", "other image", "labels"],
            [
                [
                    " and ".join(pair["splits"]),
                    *pair["names"],
                    "equal" if pair["is_label_equal"] else "differ",
                ]
                for pair in found[f"{kind}_duplicates"][:20]
            ],
        )


def _show_labels(labels: dict[str, Any]) -> None:
    from hpo.cli.output import answer, answer_table

    answer(
        f"labels in doubt: {labels['num_doubtful'] or 'none'} of {labels['num_checked']} checked,"
        f" by simple models that predict {labels['accuracy']:.1%} of the labels"
    )
    if labels["num_doubtful"]:
        answer_table(
            ["image", "split", "label", "looks like", "confidence"],
            [
                [row["name"], row["split"], row["label"], row["suggested"], row["confidence"]]
                for row in labels["doubtful"][:20]
            ],
            numeric=[4],
        )


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"
