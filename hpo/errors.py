"""Every error a user can meet, each with its exit code and a sentence that says what to do.

An error text names what is wrong, where, and what to write instead. The command line prints the
text and leaves with `exit_code`; it never prints a traceback for one of these.
"""


class HpoError(Exception):
    """A failure that is explained to the user in one sentence."""

    exit_code: int = 1


class UsageError(HpoError):
    """The command line, the sweep file or the surroundings are not usable as they are."""

    exit_code = 2


class FailureBudgetError(HpoError):
    """The study ended because too many of its trials failed."""

    exit_code = 3


class NotFoundError(HpoError):
    """No study or trial has this name."""

    exit_code = 4


class ReproductionError(HpoError):
    """A reproduction cannot be made, or it differs from what was recorded."""

    exit_code = 5


class OwnedError(HpoError):
    """Another living process owns the study or the device."""

    exit_code = 6


class InterruptedStudyError(HpoError):
    """The study was interrupted and can be resumed."""

    exit_code = 130


def did_you_mean(word: str, known: list[str]) -> str:
    """Return `, did you mean 'x'?` for the nearest known word, or an empty string.

    Args:
        word: what the user wrote.
        known: the words that would have been right.
    """
    import difflib  # noqa: PLC0415  # only ever needed on the way out

    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f", did you mean '{near[0]}'?" if near else ""
