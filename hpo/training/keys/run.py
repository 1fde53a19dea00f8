"""The keys that say how a training is run: in which precision, on how many devices, how far."""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from hpo.training.keys.key import Check, Keys, OnlyWith, Whole

EPOCH_OF_TRIAL: Final = re.compile(r"(?P<trial>[^/@]+/\d+)(@(?P<epoch>\d+))?")
"""`study/number` or `study/number@epoch`, as `init_from` takes it."""


def _check_init_from(text: str) -> str:
    if text == "none" or text.endswith(".safetensors") or EPOCH_OF_TRIAL.fullmatch(text):
        return text
    raise ValueError(
        "must be none, a file that ends in .safetensors, STUDY/NUMBER (its best epoch)"
        " or STUDY/NUMBER@EPOCH"
    )


class RunKeys(Keys):
    """How a training is run."""

    patience: Whole = Field(
        default=0,
        ge=0,
        description="Epochs without a better validation metric after which training ends; the"
        " objective's metric, or val_loss where that is of training; 0 never ends early",
    )
    keep_every: Whole = Field(
        default=0,
        ge=0,
        description="Every so many epochs the weights are kept for later, 0 keeps last and best"
        " alone",
    )
    init_from: Annotated[str, AfterValidator(_check_init_from)] = Field(
        default="none",
        description="Weights to begin with: none, a .safetensors file, STUDY/NUMBER or"
        " STUDY/NUMBER@EPOCH of an epoch that keep_every kept",
    )
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        default="fp32",
        description="Number format of convolutions and matrix products; weights, norms and"
        " losses stay fp32",
    )
    fp32_layers: str = Field(
        default="",
        description="Layers computed in fp32 whatever the precision, by name with commas, such"
        " as network.head",
    )
    channels_last: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="Whether pixels lie in memory with their channels side by side; auto: on a"
        " CPU, and on a GPU in bf16 and fp16",
    )
    checkpoint_activations: bool = Field(
        default=False,
        description="Whether layers' outputs are computed again rather than remembered: about a"
        " third slower, much less memory",
    )
    compile: bool = Field(
        default=False,
        description="Whether torch.compile fuses the model, which takes up to minutes at first",
    )
    deterministic: bool = Field(
        default=True,
        description="Whether a GPU repeats its results bit for bit, which may cost a fifth of"
        " its speed; a CPU always does",
    )
    devices_per_trial: Whole = Field(
        default=1,
        ge=1,
        le=64,
        description="Devices that share each batch of one trial, 1 to 64; on a CPU, processes",
    )
    sync_batch_norm: bool = Field(
        default=False,
        description="Whether batch norm takes its statistics over all devices of the trial; GPUs"
        " only",
    )


def _check_devices(config: "RunKeys") -> Iterator[str]:
    if config.devices_per_trial > 1 and config.compile:
        yield f"is {config.devices_per_trial}, which does not go with compile: true"


CHECKS: Final[tuple[Check, ...]] = ((("devices_per_trial", "compile"), _check_devices),)

ONLY_WITH: Final[OnlyWith] = {"fp32_layers": ("precision", ("bf16", "fp16"))}
