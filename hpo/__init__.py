"""The search: an Optuna study orchestrator for PyTorch training trials.

import hpo

study = hpo.run("sweeps/lr.yaml")
study.trials_dataframe()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpo.study.api import LoadedStudy, load_study, run

__all__ = ["LoadedStudy", "load_study", "run"]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use, so that `import hpo` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'hpo' has no attribute '{name}'")
    from hpo.study import api  # noqa: PLC0415

    return getattr(api, name)
