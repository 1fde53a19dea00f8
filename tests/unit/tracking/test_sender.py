from collections.abc import Iterator
from pathlib import Path

import pytest

from tracking.memory import MemoryTracker
from tracking.outbox import Outbox
from tracking.records import ArtifactLogged, Destination, MetricsLogged, Record, RunStarted
from tracking.sender import BATCH_SIZE, Sender
from tracking.tracker import Tracker

HERE = Destination(uri="sqlite:///here.db", experiment="one")
THERE = Destination(uri="http://there", experiment="one")
START = RunStarted(run_key="s", name="s", parent_key=None, tags={}, params={}, at_ms=1)


class Harness:
    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.now = 0.0
        self.trackers: dict[str, MemoryTracker] = {}
        self.sender = Sender(outbox, self.open, monotonic=lambda: self.now)

    def open(self, uri: str) -> Tracker:
        return self.trackers.setdefault(uri, MemoryTracker())

    def tracker(self, uri: str) -> MemoryTracker:
        return self.trackers.setdefault(uri, MemoryTracker())


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with Outbox(tmp_path / "outbox.db") as outbox:
        yield Harness(outbox)


def metrics(step: int) -> Record:
    return MetricsLogged(run_key="s", values={"loss": 1.0}, step=step, at_ms=step)


def test_what_is_in_the_outbox_arrives_once_at_its_destination(
    harness: Harness, tmp_path: Path
) -> None:
    harness.outbox.append(HERE, [START, metrics(1)])
    assert not harness.sender.send()
    (tracker,) = harness.trackers.values()
    assert list(harness.trackers) == [f"sqlite:///{tmp_path / 'here.db'}"]
    assert tracker.experiments["one"].runs["s"].points == {("loss", 1, 1, 1.0)}
    status = harness.sender.status()
    assert (status.pending, status.delivered, status.error) == (0, 2, None)


def test_a_long_queue_asks_for_another_turn_at_once(harness: Harness) -> None:
    harness.outbox.append(HERE, [START, *(metrics(step) for step in range(1, BATCH_SIZE + 5))])
    assert harness.sender.send()
    assert not harness.sender.send()
    assert harness.outbox.num_pending() == 0


def test_a_dead_destination_is_tried_ever_less_often_and_holds_up_no_other(
    harness: Harness,
) -> None:
    harness.tracker("http://there").outage = "connection refused"
    harness.outbox.append(THERE, [START])
    tries = []
    for tenth in range(400):
        harness.now = tenth / 10
        before = harness.sender._backoffs.get(THERE)
        next_at = before.next_at if before else 0.0
        harness.sender.send()
        if harness.now >= next_at:
            tries.append(harness.now)
    assert tries == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5]
    assert harness.sender.status().error == "connection refused"
    harness.outbox.append(HERE, [START])
    harness.sender.send()
    assert harness.outbox.waiting() == [THERE]


def test_a_destination_that_came_back_gets_everything(harness: Harness) -> None:
    tracker = harness.tracker("http://there")
    tracker.outage = "connection refused"
    harness.outbox.append(THERE, [START, metrics(1)])
    harness.sender.send()
    tracker.outage = None
    harness.sender.send()
    assert harness.outbox.num_pending() == 2, "it was not to be tried yet"
    harness.sender.hurry()
    harness.sender.send()
    assert harness.outbox.num_pending() == 0
    assert harness.sender.status().error is None


def test_a_client_that_raises_is_an_outage(harness: Harness) -> None:
    def broken(uri: str) -> Tracker:
        raise RuntimeError("no such driver")

    harness.sender.open_tracker = broken
    harness.outbox.append(HERE, [START])
    harness.sender.send()
    assert harness.sender.status().error == "RuntimeError: no such driver"
    assert harness.outbox.num_pending() == 1


def test_a_refused_record_is_set_aside_with_its_reason(harness: Harness) -> None:
    gone = ArtifactLogged(run_key="s", path="/nowhere/a.png", artifact_path=None, at_ms=1)
    harness.outbox.append(HERE, [START, gone, metrics(1)])
    harness.sender.send()
    assert harness.outbox.num_pending() == 0
    (refused,) = harness.outbox.refused()
    assert refused.key == gone.key
    assert "/nowhere/a.png" in refused.error
    assert harness.sender.status().refused == 1
