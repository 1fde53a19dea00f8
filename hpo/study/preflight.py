"""Trying a sweep's baseline on a few images before any trial of it exists as RUNNING."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from hpo.domain.attempt import Environment
from hpo.domain.trial import config_id
from hpo.errors import UsageError
from hpo.execution.call import CallFailedError, NoSlotError, call
from hpo.execution.executor import Executor
from hpo.study.home import Home

ENTRY_POINT: Final = "hpo.study.worker:try_out"

_UNSEEN: Final = ("model", "data", "pretrained", "init_from")
"""Keys that may name code or files outside of the project, whose content no digest covers."""


class PreflightFailedError(UsageError):
    """The baseline does not train; no trial was started."""


def ensure_trains(
    executor: Executor,
    request: Mapping[str, Any],
    environment: Environment,
    home: Home,
    announce: Callable[[str], None],
) -> None:
    """Try a configuration, unless the same one passed before with the same code and data.

    Args:
        executor: idle; one slot of it is used.
        request: of the baseline, as an attempt gets it.
        environment: digests of code and data.
        home: remembers what passed.
        announce: is told what came out.

    Raises:
        PreflightFailedError: it does not train; the text is the first fault.
    """
    memory = home.cache / "preflight" / f"{_digest(request, environment)}.json"
    if memory.exists() and _is_seen(request["config"]):
        return
    try:
        result = call(executor, ENTRY_POINT, {"request": dict(request)}, home.log)
    except NoSlotError:
        raise
    except CallFailedError as error:
        raise PreflightFailedError(_refusal(str(error), [], home)) from error
    if "fault" in result:
        raise PreflightFailedError(_refusal(result["fault"], result["details"], home))
    for remark in result["remarks"]:
        announce(f"warning: preflight: {remark}")
    announce(
        f"preflight: {result['num_samples']} images, loss {result['first_loss']:.3g} to"
        f" {result['last_loss']:.3g} in {result['num_epochs']} updates, gradients finite,"
        f" checkpoint equal ({result['seconds']:.1f} s)"
    )
    memory.parent.mkdir(parents=True, exist_ok=True)
    memory.write_text(json.dumps(result))


def _is_seen(config: Mapping[str, Any]) -> bool:
    """Tell whether the digests cover all that the configuration trains with."""
    return not any(
        isinstance(value, str) and (":" in value or "/" in value or "." in value)
        for value in (config.get(key) for key in _UNSEEN)
    )


def _digest(request: Mapping[str, Any], environment: Environment) -> str:
    facts = {
        "config": config_id(request["config"]),
        "seeds": request["seeds"],
        "device": request["device"],
        "code": environment.code_digest,
        "data": environment.data_fingerprint,
        "versions": dict(environment.versions),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def _refusal(fault: str, details: list[str], home: Home) -> str:
    lines = [f"the baseline does not train: {fault}"]
    if details:
        lines += ["  what the images went through:", *(f"    {line}" for line in details)]
    lines.append(f"  no trial was started; its output is in {home.log}; --no-preflight skips this")
    return "\n".join(lines)
