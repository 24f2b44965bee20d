"""Ctrl-C: it ends what may be ended, waits elsewhere, and is never lost."""

from __future__ import annotations

import contextlib
import signal

import pytest

from fctncalling.algorithms.run.interruption import Interruption

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.parametrize("number", NUMBERS)
def test_an_interrupt_ends_an_allowed_block_at_once(number: int) -> None:
    done = []
    with Interruption() as interruption:
        with contextlib.suppress(KeyboardInterrupt), interruption.allow_interrupts():
            signal.raise_signal(number)
            done.append(1)
        with interruption.allow_interrupts():  # it is forgotten
            done.append(2)
    assert done == [2]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("alone", [True, False])
def test_elsewhere_it_waits_for_the_next_allowed_block(number: int, alone: bool) -> None:
    done = []

    def allowed(interruption: Interruption) -> None:
        with interruption.allow_interrupts():
            done.append(2)

    with Interruption(alone=alone) as interruption:
        signal.raise_signal(number)
        done.append(1)
        with pytest.raises(KeyboardInterrupt):
            allowed(interruption)
        allowed(interruption)
    assert done == [1, 2]


def test_a_second_one_ends_a_lone_process_but_none_that_others_wait_for() -> None:
    with Interruption() as interruption:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGINT)
        assert ended.value.code == 130
        assert interruption.alone
    with Interruption(alone=False):
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)


def test_a_second_one_does_not_cut_off_what_the_first_one_starts() -> None:
    done = []
    with Interruption(alone=False) as interruption:
        try:
            with interruption.allow_interrupts():
                signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            signal.raise_signal(signal.SIGINT)  # while a checkpoint is written
            done.append(1)
    assert done == [1]


def test_the_signal_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interruption():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_a_closed_terminal_interrupts_nothing_under_nohup() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption() as interruption, interruption.allow_interrupts():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
