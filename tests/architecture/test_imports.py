import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]

HEAVY = ["torch", "torchvision", "optuna", "mlflow", "sqlalchemy", "plotly", "numpy", "scipy"]


def test_the_import_contracts_hold(capsys: pytest.CaptureFixture[str]) -> None:
    exit_code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert exit_code == 0, capsys.readouterr().out


def heavy_modules_after(code: str) -> list[str]:
    """Return which heavy modules a fresh process has loaded after running `code`."""
    tail = f"import json, sys; print(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    process = subprocess.run(
        [sys.executable, "-c", f"{code}\n{tail}"], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    loaded: list[str] = json.loads(process.stdout.splitlines()[-1])
    return loaded


def test_importing_hpo_loads_nothing_heavy() -> None:
    assert heavy_modules_after("import hpo") == []


@pytest.mark.parametrize("module", ["hpo.domain", "hpo.errors", "hpo.training.config"])
def test_what_is_said_to_be_plain_loads_nothing_heavy(module: str) -> None:
    assert heavy_modules_after(f"import {module}") == []


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_asking_for_help_loads_nothing_heavy(arguments: list[str]) -> None:
    if importlib.util.find_spec("hpo.cli.main") is None:
        pytest.skip("the command line does not exist yet")
    code = f"""
import sys
sys.argv = ["hpo", *{arguments!r}]
from hpo.cli.main import main
try:
    main()
except SystemExit as exit:
    assert exit.code in (0, None), exit.code
"""
    assert heavy_modules_after(code) == []


def test_the_probe_sees_a_heavy_module() -> None:
    assert heavy_modules_after("import numpy") == ["numpy"]
