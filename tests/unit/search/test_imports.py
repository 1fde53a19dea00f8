"""A process that does not propose with TPE does not pay for Optuna or NumPy."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "hpo.search.pruner",
        "hpo.search.seeds",
        "hpo.search.sampler",
        "hpo.search.distributions",
        "hpo.search.samplers.one_at_a_time",
        "hpo.search.samplers.grid",
        "hpo.search.samplers.random",
        "hpo.search.samplers.tpe",
        "hpo.statistics.verdict",
    ],
)
def test_importing_is_cheap(module: str) -> None:
    code = (
        f"import sys, {module};"
        "print([name for name in ('optuna', 'numpy', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
