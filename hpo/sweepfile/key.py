"""The keys of a sweep file: which exist, what they take, which are still to come.

The parser knows no other keys than these, and `sweeps/README.md` documents each of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MOST_SEED = 2**31 - 1
MOST_REPLICATES = 1000
MOST_WORKERS = 1024
MOST_TRIALS = 1_000_000
DEFAULT_CONFIGURATIONS = 40
"""What tpe and random run where `budget` names neither trials nor hours."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a section."""

    name: str
    takes: str
    """The values allowed, in words."""
    default: str
    """As one would write it, or in words; `required` where there is none."""


SECTIONS: Mapping[str, tuple[Key, ...]] = {
    "": (
        Key("study", "text", "the file's name without its ending"),
        Key("description", "text", "empty"),
        Key("objective", "metric or mapping", "val_loss"),
        Key("strategy", "name or mapping", "one-at-a-time"),
        Key("baseline", "mapping", "required"),
        Key("vary", "mapping", "required"),
        Key("first", "list of mappings, or a CSV file", "none"),
        Key("replicates", f"1 to {MOST_REPLICATES}", "1"),
        Key("seed", f"0 to {MOST_SEED}", "0"),
        Key("pruner", "name or mapping", "median for tpe and random, otherwise none"),
        Key("budget", "mapping", "the whole plan"),
        Key("execution", "mapping", "auto"),
        Key("tracking", "mapping", "default"),
    ),
    "objective": (
        Key("metric", "a metric of the task", "required"),
        Key("direction", "minimize or maximize", "what suits the metric"),
        Key("at", "best or last", "best"),
    ),
    "strategy": (
        Key("name", "one-at-a-time, grid, random or tpe", "required"),
        Key("startup_trials", "1 or more; tpe only", "10"),
    ),
    "vary": (
        Key("choices", "list of values", "required without low and high"),
        Key("ordered", "true or false", "false"),
        Key("low", "number", "required without choices"),
        Key("high", "number", "required without choices"),
        Key("log", "true or false", "false"),
        Key("step", "number", "none"),
        Key("points", "2 to 1000", "none"),
        Key("integer", "true or false", "what suits the key"),
    ),
    "pruner": (
        Key("name", "none, median, asha or hyperband", "required"),
        Key("startup_trials", "1 or more; median only", "5"),
        Key("warmup_epochs", "0 or more; median only", "1"),
        Key("min_epochs", "1 or more; asha and hyperband only", "1"),
        Key("reduction_factor", "2 or more; asha and hyperband only", "3"),
    ),
    "budget": (
        Key("trials", "1 or more, or unlimited", "the whole plan, or 40 configurations"),
        Key("hours", "number above 0, or a duration", "none"),
        Key("until", "mapping of the metric to a value", "none"),
    ),
    "execution": (
        Key("workers", f"1 to {MOST_WORKERS}, or auto", "auto"),
        Key("devices", "list of devices, or auto", "auto"),
    ),
    "tracking": (
        Key("uri", "MLflow URI, or default", "default"),
        Key("experiment", "text", "the study's name"),
    ),
}
"""Every section's keys; `` is the top of the file, `vary` what may stand below a varied key."""

LATER: Mapping[str, frozenset[str]] = {
    "": frozenset({"nuisance", "confirm", "checkpoints", "target", "command"}),
    "strategy": frozenset({"adopt"}),
    "vary": frozenset({"scale_with", "rule"}),
    "execution": frozenset({"retries", "trial_timeout", "max_failures", "trials_per_device"}),
}
"""Keys that are planned. They are refused, but not as misspelt."""

LATER_STRATEGIES = frozenset({"quasi-random", "gp", "cmaes"})


def key_names(section: str) -> list[str]:
    """Return the names of a section's keys in the order to document them."""
    return [key.name for key in SECTIONS[section]]
