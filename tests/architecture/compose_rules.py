"""What a compose file must keep to, as a function of its parsed form."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

EXACT_TAG = re.compile(r"[^:]+:\d+\.\d+(\.\d+)?(-[a-z0-9.-]+)?")
"""`postgres:17.6-bookworm`: a version that names one release."""

SECRET_NAME = re.compile(r"pass(word|wd)|secret|token|(^|_)key$", re.IGNORECASE)

Service = Mapping[str, Any]


def problems(compose: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each rule that a service or the file breaks."""
    found = [
        f"{name}: {problem}"
        for name, service in compose["services"].items()
        for rule in SERVICE_RULES
        for problem in rule(service, compose)
    ]
    return [*found, *_secrets_from_files(compose), *_database_is_internal(compose)]


def _exact_version(service: Service, _: object) -> Iterator[str]:
    image = service.get("image", "")
    if not EXACT_TAG.fullmatch(image):
        yield f"image '{image}' is not an exact version"


def _non_root(service: Service, _: object) -> Iterator[str]:
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", str(service.get("user", ""))):
        yield "user is not a numeric user and group other than root"


def _locked_down(service: Service, _: object) -> Iterator[str]:
    if service.get("read_only") is not True:
        yield "the root file system can be written"
    if "/tmp" not in [mount.partition(":")[0] for mount in service.get("tmpfs", [])]:  # noqa: S108
        yield "the temporary folder is no tmpfs"
    if service.get("cap_drop") != ["ALL"] or "cap_add" in service:
        yield "capabilities are kept"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield "privileges can be gained"
    yield from (
        f"{key} opens the host"
        for key in ("privileged", "network_mode", "pid", "ipc", "userns_mode", "devices")
        if key in service
    )
    if any("docker.sock" in str(volume) for volume in service.get("volumes", [])):
        yield "the engine's socket is mounted"


def _limited(service: Service, _: object) -> Iterator[str]:
    yield from (f"no {key}" for key in ("mem_limit", "pids_limit") if key not in service)


def _loopback_only(service: Service, _: object) -> Iterator[str]:
    for port in service.get("ports", []):
        host = port.get("host_ip") if isinstance(port, Mapping) else str(port).rpartition(":")[0]
        if not str(host).startswith("127.0.0.1"):
            yield f"port {port} is open beyond this machine"


def _checked(service: Service, _: object) -> Iterator[str]:
    check = service.get("healthcheck", {})
    if check.get("disable") or not check.get("test") or check["test"] == ["NONE"]:
        yield "no health check"
    elif _seconds(check.get("start_period", "0s")) < 60:
        yield "the health check gives less than 60 s to start"


def _waits_for_health(service: Service, _: object) -> Iterator[str]:
    needed = service.get("depends_on", {})
    if not isinstance(needed, Mapping):
        needed = {name: {} for name in needed}
    for name, condition in needed.items():
        if condition.get("condition") != "service_healthy":
            yield f"does not wait until {name} is healthy"


def _no_secret_in_sight(service: Service, _: object) -> Iterator[str]:
    environment = service.get("environment", {})
    if not isinstance(environment, Mapping):
        environment = dict(line.partition("=")[::2] for line in environment)
    for name, value in environment.items():
        if SECRET_NAME.search(name) and not name.endswith("_FILE"):
            yield f"{name} is a secret in the environment"
        if re.search(r"://[^/@]*:[^/@]*@", str(value)):
            yield f"{name} has a password in a URL"


def _declared_secrets(service: Service, compose: Mapping[str, Any]) -> Iterator[str]:
    for secret in service.get("secrets", []):
        if secret not in compose.get("secrets", {}):
            yield f"the secret {secret} is declared nowhere"


SERVICE_RULES: tuple[Callable[[Service, Mapping[str, Any]], Iterator[str]], ...] = (
    _exact_version,
    _non_root,
    _locked_down,
    _limited,
    _loopback_only,
    _checked,
    _waits_for_health,
    _no_secret_in_sight,
    _declared_secrets,
)


def _secrets_from_files(compose: Mapping[str, Any]) -> Iterator[str]:
    # The engine refuses to start a service whose secret file is missing.
    for name, secret in compose.get("secrets", {}).items():
        if set(secret) != {"file"} or not secret["file"].startswith("./secrets/"):
            yield f"the secret {name} does not come from a file in secrets/, which git ignores"


def _database_is_internal(compose: Mapping[str, Any]) -> Iterator[str]:
    for name, service in compose["services"].items():
        if not service.get("image", "").startswith("postgres:"):
            continue
        if "ports" in service:
            yield f"{name}: the database is published"
        networks = service.get("networks", ["default"])
        if not all((compose["networks"].get(net) or {}).get("internal") for net in networks):
            yield f"{name}: the database is on a network that is not internal"


def _seconds(duration: str) -> int:
    minutes, seconds = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration).groups(default="0")  # type: ignore[union-attr]
    return 60 * int(minutes) + int(seconds)
