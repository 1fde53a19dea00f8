"""Ctrl-C and its kin are counted, not died of."""

import signal

import pytest

from hpo.execution.signals import STOP_SIGNALS, interruptible


@pytest.mark.parametrize("number", STOP_SIGNALS, ids=lambda number: number.name)
def test_a_stop_signal_is_counted_and_its_old_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with interruptible() as interruption:
        assert interruption.count == 0
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert interruption.count == 2
    assert signal.getsignal(number) is before


def test_an_ignored_signal_is_counted_too_as_in_a_background_job() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.count == 1
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
