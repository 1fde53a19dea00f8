"""A process that works on a ledger until it is killed: `open URL`, `write URL` or `own URL`."""

import os
import sys

import optuna.storages  # noqa: F401  # imported before the race begins, since it takes longest

from hpo.storage.ledger import Owner
from hpo.storage.sql_ledger import SqlLedger
from tests.fakes import studies as s

TRIALS = (0, 1)
"""Every apply measures one epoch of each."""


def say(word: object) -> None:
    """Tell the test that waits."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def open_on_a_word(url: str) -> None:
    """Say that all is imported, wait for a line, open the ledger."""
    say("ready")
    sys.stdin.readline()
    ledger = SqlLedger(url)
    say(len(ledger.studies()))
    ledger.close()


def write_for_ever(url: str) -> None:
    """Measure epoch after epoch; each one that is on record is printed."""
    ledger = SqlLedger(url)
    ledger.create_study(s.new_study())
    ledger.apply(s.UID, [s.plan(TRIALS), *(s.started(n, f"token-{n}") for n in TRIALS)])
    epoch = 0
    while True:
        epoch += 1
        ledger.apply(s.UID, [s.measured(n, f"token-{n}", epoch) for n in TRIALS])
        say(epoch)


def own_until_killed(url: str) -> None:
    """Own a study; say so and wait."""
    ledger = SqlLedger(url)
    with ledger.own("lr-digits", Owner(host="a-host", pid=os.getpid())):
        say(os.getpid())
        sys.stdin.readline()


WORKS = {"open": open_on_a_word, "write": write_for_ever, "own": own_until_killed}

if __name__ == "__main__":
    WORKS[sys.argv[1]](sys.argv[2])
