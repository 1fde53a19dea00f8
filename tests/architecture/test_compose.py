import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.compose_rules import EXACT_TAG, problems

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
MLFLOW = COMPOSE["services"]["mlflow"]


def test_the_compose_file_breaks_no_rule() -> None:
    assert problems(COMPOSE) == []


def edit(service: str, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(compose: dict[str, Any]) -> None:
        if value is None:
            del compose["services"][service][key]
        else:
            compose["services"][service][key] = value

    return change


VIOLATIONS = [
    (edit("mlflow", "image", "hpo-mlflow:latest"), "exact version"),
    (edit("postgres", "image", "postgres:17"), "exact version"),
    (edit("worker", "user", None), "other than root"),
    (edit("worker", "user", "0:0"), "other than root"),
    (edit("mlflow", "read_only", None), "can be written"),
    (edit("mlflow", "tmpfs", None), "folder is no tmpfs"),
    (edit("postgres", "cap_drop", ["NET_RAW"]), "capabilities are kept"),
    (edit("postgres", "cap_add", ["CHOWN"]), "capabilities are kept"),
    (edit("worker", "security_opt", []), "privileges can be gained"),
    (edit("worker", "privileged", True), "privileged opens the host"),
    (edit("worker", "volumes", ["/var/run/docker.sock:/s"]), "socket is mounted"),
    (edit("mlflow", "mem_limit", None), "no mem_limit"),
    (edit("mlflow", "pids_limit", None), "no pids_limit"),
    (edit("mlflow", "ports", ["5000:5000"]), "beyond this machine"),
    (edit("mlflow", "ports", ["0.0.0.0:5000:5000"]), "beyond this machine"),
    (edit("mlflow", "ports", [{"target": 5000}]), "beyond this machine"),
    (edit("postgres", "ports", ["127.0.0.1:5432:5432"]), "database is published"),
    (edit("postgres", "networks", ["database", "published"]), "not internal"),
    (edit("mlflow", "healthcheck", None), "no health check"),
    (edit("mlflow", "healthcheck", {"test": ["NONE"]}), "no health check"),
    (edit("mlflow", "healthcheck", {"test": ["CMD", "x"], "start_period": "30s"}), "60 s"),
    (edit("mlflow", "depends_on", ["postgres"]), "until postgres is healthy"),
    (edit("mlflow", "environment", {"MLFLOW_AUTH_ADMIN_PASSWORD": "x"}), "in the environment"),
    (edit("worker", "environment", ["A=postgresql://hpo:x@postgres/hpo"]), "password in a URL"),
    (edit("worker", "secrets", ["forgotten"]), "declared nowhere"),
    (
        lambda compose: compose["secrets"]["mlflow_flask_key"].update(environment="KEY"),
        "does not come from a file",
    ),
]


@pytest.mark.parametrize(("plant", "expected"), VIOLATIONS)
def test_a_planted_violation_is_caught(
    plant: Callable[[dict[str, Any]], None], expected: str
) -> None:
    compose = copy.deepcopy(COMPOSE)
    plant(compose)
    assert any(expected in problem for problem in problems(compose)), problems(compose)


def test_mlflow_lets_in_exact_names_and_runs_nothing_of_others() -> None:
    environment = MLFLOW["environment"]
    hosts = environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert hosts[0] == "mlflow:5000"
    assert not any("*" in host for host in hosts)
    assert "*" not in environment["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"]
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert environment["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


def test_mlflow_asks_who_is_there_and_is_checked_by_a_signed_in_call() -> None:
    assert "--app-name basic-auth" in (ROOT / "docker/mlflow/start.sh").read_text()
    script = MLFLOW["healthcheck"]["test"][-1]
    assert script == "/usr/local/bin/healthy.py"
    text = (ROOT / "docker/mlflow/healthy.py").read_text()
    assert "http://mlflow:5000/api/" in text
    assert "Authorization" in text


def test_the_worker_has_shared_memory_for_its_data_workers() -> None:
    assert COMPOSE["services"]["worker"]["shm_size"] == "1g"


@pytest.mark.parametrize("service", ["mlflow", "worker"])
def test_an_image_is_built_from_an_exact_version_with_hashes_and_leaves_root(service: str) -> None:
    text = (ROOT / COMPOSE["services"][service]["build"]["dockerfile"]).read_text()
    for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE):
        assert EXACT_TAG.fullmatch(image)
    assert "--require-hashes" in text
    assert f"USER {COMPOSE['services'][service]['user']}" in text


def test_every_secret_is_drawn_by_the_script_and_none_is_in_the_repository() -> None:
    script = (ROOT / "docker/draw-secrets").read_text()
    for name in COMPOSE["secrets"]:
        assert name in script
    assert "secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_images_have_the_versions_that_hpo_is_locked_to() -> None:
    def pins(lock: str) -> dict[str, str]:
        lines = (ROOT / lock).read_text().splitlines()
        return dict(line.split(" ")[0].split("==") for line in lines if "==" in line[:60])

    ours, theirs = pins("requirements.lock"), pins("docker/mlflow.lock")
    assert ours["mlflow"] == theirs["mlflow"]
    assert {n for n in ours.keys() & theirs.keys() if ours[n] != theirs[n]} == set()
