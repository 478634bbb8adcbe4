"""Helpers: they give what a function gives, tell what it tells, and end with whoever started them."""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from lindley import apart
from lindley.apart import Helper, Tell, share_out, some_helpers
from lindley.errors import LindleyError


def double(number: int, tell: Tell) -> int:
    """What the tests have done elsewhere; helpers find it by the name of this module."""
    tell("doubling", number)
    return 2 * number


def own_process(number: int, tell: Tell) -> int:
    time.sleep(0.05)  # so that one worker does not do all
    return os.getpid()


def warn(tell: Tell) -> str:
    warnings.warn("few sources", RuntimeWarning, stacklevel=1)
    return "done"


def fail(number: int, tell: Tell) -> None:
    raise LindleyError(f"{number} has no inverse")


class Odd(Exception):
    """An error that cannot be made again from what pickle keeps of it."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one}, {two}")


def fail_oddly(tell: Tell) -> None:
    raise Odd("one", "two")


def die(number: int, tell: Tell) -> None:
    os._exit(7)


def tell_for_ever(number: int, tell: Tell) -> None:
    while True:
        tell(number)
        time.sleep(0.01)


def print_and_double(number: int, tell: Tell) -> int:
    print("this is no answer")
    return double(number, tell)


@pytest.fixture(scope="module")
def helper() -> Iterator[Helper]:
    """One for all tests that leave it alive."""
    with Helper() as started:
        yield started


def nothing(*told: object) -> None:
    pass


def test_it_gives_and_tells_again_and_again(helper: Helper) -> None:
    told: list[Any] = []
    for number in (2, 3):
        assert helper(double, number, tell=lambda *what: told.append(what)) == 2 * number
    assert told == [("doubling", 2), ("doubling", 3)]
    assert helper(own_process, 0, tell=nothing) != os.getpid()


def test_what_is_printed_is_no_answer(helper: Helper) -> None:
    assert helper(print_and_double, 4, tell=nothing) == 8


def test_warnings_are_given_here(helper: Helper) -> None:
    with pytest.warns(RuntimeWarning, match="few sources"):
        assert helper(warn, tell=nothing) == "done"


def test_errors_arrive_and_the_next_call_works(helper: Helper) -> None:
    with pytest.raises(LindleyError, match="3 has no inverse"):
        helper(fail, 3, tell=nothing)
    with pytest.raises(RuntimeError, match="Odd: one, two"):
        helper(fail_oddly, tell=nothing)
    assert helper(double, 5, tell=nothing) == 10


def test_one_that_is_gone_is_told() -> None:
    with Helper() as started, pytest.raises(LindleyError, match="ended before it was done"):
        started(die, 1, tell=nothing)
    with Helper() as started:
        started.end()
        with pytest.raises(LindleyError, match="ended before it was done"):
            started(double, 1, tell=nothing)


def test_where_no_process_can_be_started_it_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart.sys, "executable", "/there/is/no/such/python")
    with Helper() as started:
        assert started(own_process, 0, tell=nothing) == os.getpid()


def test_work_is_shared_out(helper: Helper) -> None:
    told: list[Any] = []
    found = dict(share_out(double, range(20), [helper], tell=lambda *what: told.append(what)))
    assert found == {number: 2 * number for number in range(20)}
    assert sorted(told) == [(number, "doubling", number) for number in range(20)]
    processes = set(dict(share_out(own_process, range(20), [helper])).values())
    assert len(processes) == 2
    assert os.getpid() in processes


def test_what_must_stay_stays(helper: Helper) -> None:
    found = dict(share_out(own_process, range(10), [helper], here=range(10, 20), threads=3))
    assert set(found) == set(range(20))
    assert {found[number] for number in range(10, 20)} == {os.getpid()}


def test_no_more_is_begun_than_is_asked_for() -> None:
    told: list[int] = []
    given = share_out(double, range(100), (), tell=lambda job, *_: told.append(job))
    next(given)
    time.sleep(0.1)
    assert len(told) == 1
    given.close()


def die_elsewhere(parent: int, tell: Tell) -> int:
    """Not in the process of the test itself."""
    if os.getpid() != parent:
        os._exit(7)
    return parent


def test_what_a_lost_helper_had_in_hand_is_done_here() -> None:
    jobs = [os.getpid()] * 9
    with some_helpers(2) as helpers:
        assert list(share_out(die_elsewhere, jobs, helpers)) == [(os.getpid(), os.getpid())] * 9


def lose_another(number: int, tell: Tell) -> None:
    with Helper() as started:
        started(die, number, tell=tell)


def test_an_error_ends_all() -> None:
    with pytest.raises(LindleyError, match="ended before it was done"):
        list(share_out(lose_another, [1], ()))
    with some_helpers(1) as helpers, pytest.raises(LindleyError, match="0 has no inverse"):
        list(share_out(fail, [0], helpers))


def test_it_ends_when_nobody_asks_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: made.append(start(*given, **more)) or made[-1])
    heard: list[int] = []

    def tell(job: int, *told: object) -> None:
        heard.append(job)
        if set(heard) == {0, 1}:
            raise KeyboardInterrupt

    with some_helpers(1) as helpers, pytest.raises(KeyboardInterrupt):
        for _ in share_out(tell_for_ever, range(2), helpers, tell=tell):
            pass
    assert made[0].poll() is not None
