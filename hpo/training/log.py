"""The trial's log: lines for people, one for each thing that a person would want to know."""


def say(text: str) -> None:
    """Write a line to the log of the attempt, which is its standard output."""
    print(text, flush=True)  # noqa: T201  # the trial's log
