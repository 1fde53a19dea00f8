"""Which learning rates are worth searching, by a range test of a sweep's baseline."""

from dataclasses import dataclass
from typing import Any

from hpo.domain.sweep import Sweep
from hpo.execution.call import call
from hpo.study.compose import WORKER, baseline_request, open_executor, prepare_data
from hpo.study.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRange:
    """What a range test of a baseline found."""

    rates: list[float]
    losses: list[float]
    """Of each update, before it."""
    smooth: list[float]
    low: float | None
    """Where the loss begins to fall; None where it never does."""
    high: float | None
    """Where it is lowest."""
    steepest: float | None
    """Where it falls fastest."""
    remark: str
    """Why the test ended."""
    device: str

    @property
    def vary(self) -> str | None:
        """The suggested range as lines to put under `vary`; None without one."""
        if self.low is None or self.high is None:
            return None
        return f"lr: {{low: {rounded(self.low)}, high: {rounded(self.high)}, log: true}}"


def rounded(rate: float) -> str:
    """Return a rate to one digit, as YAML reads a number: `3e-4`, with a dot before the e."""
    mantissa, exponent = f"{rate:.0e}".split("e")
    return f"{mantissa}.0e{int(exponent):+d}"


def find_rates(sweep: Sweep, home: Home, ends: tuple[float, float], num_steps: int) -> RateRange:
    """Train a sweep's baseline for some updates with a rising rate.

    Args:
        sweep: whose baseline; its own lr and schedule play no part.
        home: where decoded data is kept.
        ends: first and last rate, above 0 and rising. Below 1e-7 fp32 weights do not move in a
            hundred updates; above 10 no rate is in use.
        num_steps: updates between them; 19 to a decade place a bend within a factor of 2.
    """
    with open_executor(sweep.execution) as executor:
        prepare_data(executor, home, sweep)
        slot = executor.slots[0]
        payload: dict[str, Any] = {
            "request": baseline_request(home, sweep, slot),
            "low": ends[0],
            "high": ends[1],
            "num_steps": num_steps,
        }
        result = call(executor, f"{WORKER}:find_range", payload, home.log)
    return RateRange(**result, device=slot.device)
