"""Names that people read: of a trial, of a configuration, of a value."""

from collections.abc import Mapping

from hpo.domain.search_space import Choices, Parameter, Params, Value
from hpo.domain.sweep import Sweep
from hpo.domain.trial import PlannedTrial, Role


def value_text(value: Value) -> str:
    """Return a value as people write it, to four digits: `3e-4`, `64`, `0.25`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if value == 0 or 1e-2 <= abs(value) < 1e5:
        return f"{value:.4g}"
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def params_text(params: Mapping[str, Value]) -> str:
    """Return `lr=3e-3 dropout=0.25`."""
    return " ".join(f"{name}={value_text(value)}" for name, value in params.items())


def parameter_text(parameter: Parameter) -> str:
    """Return what a parameter may be: `1e-5 to 0.1, log`, or its values."""
    if isinstance(parameter, Choices):
        return ", ".join(value_text(value) for value in parameter.values)
    scale = ", log" if parameter.is_log else ""
    step = f", step {value_text(parameter.step)}" if parameter.step else ""
    return f"{value_text(parameter.low)} to {value_text(parameter.high)}{scale}{step}"


def configuration_name(sweep: Sweep, config: Params, role: Role, axis: str | None) -> str:
    """Return what distinguishes a configuration: `lr=3e-3`, or `baseline lr=1e-3`."""
    if role is Role.BASELINE:
        # Where one parameter varies, its value says more than the word alone.
        only = sweep.space.names[0] if len(sweep.space.names) == 1 else None
        return f"baseline {only}={value_text(config[only])}" if only else "baseline"
    if axis is not None:
        return f"{axis}={value_text(config[axis])}"
    return params_text({name: config[name] for name in sweep.space.names if name in config})


def run_name(sweep: Sweep, plan: PlannedTrial) -> str:
    """Return a trial's name in MLflow: `lr=3e-3 r2`."""
    name = configuration_name(sweep, plan.config, plan.role, plan.axis)
    return f"{name} r{plan.replicate}" if sweep.replicates > 1 else name
