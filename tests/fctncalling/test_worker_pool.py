"""Workers that die: their shares are played by others, in order and once, and they are replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fctncalling.algorithms.generation.engine_api import RolloutError
from fctncalling.training.rollouts.ray_rollout import WorkerLost, WorkerPool

Fate = Callable[[int, Any, int], str]
"""(number of the worker as hired, share or None where it starts, how often that was tried) -> "",
"dies", "never".
"""


class Company:
    """A transport whose workers are numbers, in order of hire, and whose fates are written
    beforehand.
    """

    def __init__(self, fate: Fate) -> None:
        self.fate = fate
        self.started = 0
        self.stopped = list[int]()
        self.asked: list[tuple[int, Any]] = []
        self.now = 0.0
        self._tickets: dict[int, tuple[int, Any, int]] = {}

    def start_worker(self, number: int) -> tuple[int, int]:
        worker = self.started
        self.started += 1
        return worker, self._ticket(worker, None)

    def submit(self, worker: int, share: Any) -> int:
        self.asked.append((worker, share))
        return self._ticket(worker, share)

    def _ticket(self, worker: int, share: Any) -> int:
        tries = sum(known == share for _, known, _ in self._tickets.values())
        self._tickets[len(self._tickets)] = worker, share, tries
        return len(self._tickets) - 1

    def wait(self, tickets: Sequence[int], timeout_s: float) -> list[int]:
        self.now += timeout_s
        return [
            ticket for ticket in reversed(tickets) if self.fate(*self._tickets[ticket]) != "never"
        ][:1]

    def get_result(self, worker: int, ticket: int) -> Any:
        known, share, tries = self._tickets[ticket]
        assert known == worker
        if self.fate(worker, share, tries) == "dies":
            raise WorkerLost(f"worker {worker} fell over")
        return None if share is None else share * 10

    def stop_worker(self, worker: int) -> None:
        self.stopped.append(worker)


def pool_of(company: Company, count: int = 2) -> WorkerPool:
    return WorkerPool(company, count, patience_s=100.0, clock=lambda: company.now)


def test_results_come_in_the_order_of_their_shares_whoever_is_faster() -> None:
    company = Company(lambda *_: "")
    pool, seen = pool_of(company), []
    assert pool.finish_job(pool.submit_job([1, 2, 3, 4, 5]), seen.append) == [10, 20, 30, 40, 50]
    assert sorted(seen) == [10, 20, 30, 40, 50]
    assert seen != sorted(seen)
    assert pool.num_lost == 0


def test_what_a_lost_worker_was_at_is_done_by_another_and_the_message_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    company = Company(lambda worker, share, tries: "dies" if share == 2 and tries == 0 else "")
    with caplog.at_level(logging.WARNING):
        pool = pool_of(company)
        assert pool.finish_job(pool.submit_job([1, 2, 3])) == [10, 20, 30]
    [first, second] = [worker for worker, share in company.asked if share == 2]
    assert first != second
    assert company.started == 3
    assert company.stopped == [first]
    assert [share for _, share in company.asked].count(1) == 1
    assert f"worker {first} fell over" in caplog.text
    assert "another plays its episodes" in caplog.text


def test_those_that_are_left_go_on_where_a_replacement_finds_no_room() -> None:
    def fate(worker: int, share: Any, tries: int) -> str:
        if share is None:
            return "never" if worker > 1 else ""
        return "dies" if worker == 1 else ""

    pool = pool_of(Company(fate))
    assert pool.finish_job(pool.submit_job(list(range(6)))) == [0, 10, 20, 30, 40, 50]


def test_a_share_that_costs_every_worker_ends_the_run_naming_the_cause() -> None:
    pool = pool_of(Company(lambda worker, share, tries: "dies" if share == 2 else ""))
    with pytest.raises(RolloutError, match=r"3 times in a row; the last: worker \d fell over"):
        pool.finish_job(pool.submit_job([1, 2, 3]))


def test_workers_that_cannot_start_end_the_run_naming_the_cause() -> None:
    pool = pool_of(Company(lambda worker, share, tries: "dies"))
    with pytest.raises(RolloutError, match=r"could not be started, 3 times in a row.*fell over"):
        pool.finish_job(pool.submit_job([1]))


def test_where_no_worker_comes_the_wait_has_an_end() -> None:
    company = Company(lambda *_: "never")
    pool = pool_of(company)
    with pytest.raises(RolloutError, match="no rollout worker could be started for 101 s"):
        pool.finish_job(pool.submit_job([1]))
    assert company.now == pytest.approx(102.0)


def test_a_job_begun_earlier_is_finished_later_while_another_is_asked_for_first() -> None:
    pool = pool_of(Company(lambda *_: ""))
    ahead = pool.submit_job([1, 2])
    assert pool.finish_job(pool.submit_job([7, 8])) == [70, 80]
    assert pool.finish_job(ahead) == [10, 20]


def test_closing_lets_go_of_everyone() -> None:
    company = Company(lambda *_: "")
    pool = pool_of(company, 3)
    pool.finish_job(pool.submit_job([1]))
    pool.submit_job([4])
    pool.close()
    assert sorted(company.stopped) == [0, 1, 2]
