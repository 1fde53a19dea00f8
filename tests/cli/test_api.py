"""The Python API says what the command line says."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import hpo

if __name__ == "__main__":
    study = hpo.run("small.yaml", overrides=["epochs=1"], home="here")
    frame = study.trials_dataframe()
    assert list(frame["params_lr"]) == [1e-3, 1e-2], frame
    assert set(frame["state"]) == {"COMPLETE"}
    assert len(study.optuna_study().trials) == 2
    best = hpo.load_study(home="here").best()
    assert best.winner.params["lr"] == best.conclusion.winner.params["lr"]
    assert 0 < best.test.mean("accuracy") <= 1
    print("all held")
"""


def test_a_script_runs_a_sweep_and_reads_it(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(
        "baseline: {data: digits, model: mlp, epochs: 2}\nvary: {lr: [1e-3, 1e-2]}\n"
    )
    (tmp_path / "script.py").write_text(SCRIPT)
    result = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.stdout == "all held\n", result.stderr
