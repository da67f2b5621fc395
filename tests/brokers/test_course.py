"""The decisions of a hybrid consumer, on a clock that is moved by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.course import Course, Listen, Mode, Receive, Rest, Subscribe, Unsubscribe
from localqueue.brokers.port import Available, Delivery, Message
from localqueue.errors import QueueStoreUnavailableError, UnsupportedByBroker

DOWN = QueueStoreUnavailableError("it is down")


class Play:
    """Answers the steps of a course, one after the other, and notes them."""

    def __init__(self, broker: str, mode: Mode = "hybrid", **options: Any) -> None:
        self.now = 100.0
        self.course = Course(capabilities_of(broker), mode=mode, clock=lambda: self.now, **options)
        self.steps: list[object] = []

    def find(self, *answers: Any, timeout: float | None = None) -> list[bytes]:
        """Each answer is a value, an error to throw, or a number of seconds that pass while nothing comes."""
        left = list(answers)
        course = self.course.find(timeout)
        try:
            step = next(course)
            while True:
                self.steps.append(step)
                answer = left.pop(0)
                if isinstance(answer, Exception):
                    step = course.throw(answer)
                elif isinstance(answer, float):
                    self.now += answer
                    step = course.send([] if isinstance(step, Receive) else None)
                else:
                    step = course.send(answer)
        except StopIteration as end:
            assert left == []
            return [one.body for one in end.value]
        except IndexError:
            course.close()
            return []


def delivery(name: str) -> Delivery:
    return Delivery("jobs", name, name.encode(), {}, 1, name)


def test_a_message_that_is_pushed_is_never_asked_for() -> None:
    play = Play("rabbitmq")
    assert play.find(None, Message(delivery("a")), Message(delivery("b")), None) == [b"a", b"b"]
    assert play.steps == [Subscribe(), Listen(None), Listen(0.0), Listen(0.0)]
    counters = play.course.counters
    assert (counters.pushed, counters.pushes, counters.polls, counters.polled) == (2, 2, 0, 0)


def test_a_signal_is_followed_by_a_question() -> None:
    play = Play("pgmq")
    assert play.find(None, [], Available("jobs"), [delivery("a")]) == [b"a"]
    assert play.steps == [Subscribe(), Receive(10), Listen(5.0), Receive(10)]
    assert play.course.counters.pushed == 1 and play.course.counters.polls == 0


def test_a_full_batch_after_a_signal_is_followed_by_another_question() -> None:
    play = Play("pgmq", batch=2)
    assert play.find(None, [delivery("a"), delivery("b")]) == [b"a", b"b"]
    assert play.find([delivery("c")]) == [b"c"]
    assert play.steps[-1] == Receive(2)


def test_a_signal_that_was_lost_is_made_up_for_by_a_poll() -> None:
    play = Play("pgmq", fallback_interval=5.0)
    assert play.find(None, [], 5.0, [delivery("missed")]) == [b"missed"]
    assert play.steps[-2:] == [Listen(5.0), Receive(10)]
    assert (play.course.counters.polls, play.course.counters.polled) == (1, 1)


def test_a_source_that_loses_no_push_is_not_polled_while_it_pushes() -> None:
    play = Play("rabbitmq", fallback_interval=1.0)
    assert play.find(None, 60.0, Message(delivery("a")), None) == [b"a"]
    assert play.course.counters.polls == 0


def test_push_only_never_polls() -> None:
    play = Play("pgmq", "push_only")
    assert play.find(None, [], 60.0, Available("jobs"), [delivery("a")]) == [b"a"]
    assert [type(step) for step in play.steps] == [Subscribe, Receive, Listen, Listen, Receive]
    assert play.steps[2] == Listen(None)
    assert play.course.counters.polls == 0


def test_poll_only_never_subscribes() -> None:
    play = Play("rabbitmq", "poll_only", fallback_interval=2.0)
    assert play.find([], 2.0, [delivery("a")]) == [b"a"]
    assert play.steps == [Receive(10), Rest(2.0), Receive(10)]
    assert (play.course.counters.polls, play.course.counters.empty_polls, play.course.counters.pushed) == (2, 1, 0)
    assert play.course.counters.state == "poll"


def test_a_source_with_long_polls_is_asked_to_wait() -> None:
    play = Play("sqs", fallback_interval=60.0)
    assert play.find(20.0, [delivery("a")]) == [b"a"]
    assert play.steps == [Receive(10, 20.0), Receive(10, 20.0)]


def test_push_only_is_refused_where_there_is_no_push() -> None:
    with pytest.raises(UnsupportedByBroker, match=r"sqs can not push: use mode='hybrid' or mode='poll_only'"):
        Play("sqs", "push_only")


def test_when_push_fails_it_polls_at_once_and_tries_push_again() -> None:
    play = Play("rabbitmq", fallback_interval=30.0)
    found = play.find(None, DOWN, None, [], 0.2, None, Message(delivery("a")), None)
    assert found == [b"a"]
    kinds = [type(step) for step in play.steps]
    assert kinds == [Subscribe, Listen, Unsubscribe, Receive, Rest, Subscribe, Listen, Listen]
    counters = play.course.counters
    assert (counters.degradations, counters.recoveries, counters.state, counters.polls) == (1, 1, "push", 1)


def test_while_push_is_down_it_polls_often_and_tries_push_less_and_less() -> None:
    play = Play("rabbitmq", fallback_interval=30.0)
    tries: list[float] = []
    polls: list[float] = []
    course = play.course.find(60.0)
    step = next(course)
    with pytest.raises(StopIteration):
        while True:
            if isinstance(step, Subscribe):
                tries.append(play.now)
                step = course.throw(DOWN)
            elif isinstance(step, Receive):
                polls.append(play.now)
                step = course.send([])
            else:
                assert isinstance(step, Rest) and step.seconds is not None
                play.now += max(step.seconds, 0.001)
                step = course.send(None)
    assert play.course.counters.state == "degraded" and play.course.counters.degradations == 1
    assert 110 <= len(polls) <= 121
    pauses = [later - before for before, later in pairwise(tries)]
    assert pauses[0] < 0.2 and 2.0 < pauses[-1] <= 5.1


def test_what_comes_while_push_is_down_comes_by_poll() -> None:
    play = Play("rabbitmq")
    assert play.find(DOWN, [delivery("a")]) == [b"a"]
    assert play.course.counters.polled == 1 and play.course.counters.state == "degraded"


def test_push_only_waits_until_push_is_back() -> None:
    play = Play("rabbitmq", "push_only")
    assert play.find(DOWN, 0.2, DOWN, 0.4, None, Message(delivery("a")), None) == [b"a"]
    assert not any(isinstance(step, Receive) for step in play.steps)


def test_a_poll_that_fails_is_no_end() -> None:
    play = Play("sqs")
    assert play.find(DOWN, 0.5, [delivery("a")]) == [b"a"]
    assert (play.course.counters.degradations, play.course.counters.recoveries) == (1, 1)


def test_it_gives_up_when_the_time_is_over() -> None:
    play = Play("pgmq")
    assert play.find(None, [], 1.0, timeout=1.0) == []
    assert play.steps[-1] == Listen(1.0)


def test_what_was_gathered_when_it_was_interrupted_is_not_lost() -> None:
    play = Play("rabbitmq")
    course = play.course.find(None)
    assert next(course) == Subscribe()
    course.send(None)
    course.send(Message(delivery("a")))
    course.close()
    assert play.find() == [b"a"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mode": "pull"}, "mode must be one of hybrid, push_only, poll_only, not 'pull'"),
        ({"batch": 0}, "batch must be a whole number from 1 on, not 0"),
        ({"fallback_interval": 0}, "fallback_interval must be between 0 and 86400 seconds, not 0"),
        ({"fallback_interval": "5"}, "fallback_interval must be a number of seconds, not '5'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        Course(capabilities_of("sqlite"), **options)
