import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracking.outbox import Outbox, OutboxCounts
from tracking.records import Destination, MetricsLogged, RunReopened

HERE = Destination(uri="sqlite:///here.db", experiment="one")
THERE = Destination(uri="http://there", experiment="one")

WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from tracking.outbox import Outbox
    from tracking.records import Destination, MetricsLogged

    outbox = Outbox(Path(sys.argv[1]))
    destination = Destination(uri="sqlite:///x.db", experiment="e")
    for step in range(100_000):
        outbox.append(
            destination,
            [
                MetricsLogged(run_key=sys.argv[2], values={name: 0.5}, step=step, at_ms=step)
                for name in ("a", "b", "c")
            ],
        )
        print(step, flush=True)
    """
)


def metrics(step: int, run_key: str = "s/0") -> MetricsLogged:
    return MetricsLogged(run_key=run_key, values={"loss": step / 7}, step=step, at_ms=1000 + step)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    with Outbox(tmp_path / "home" / "outbox.db") as opened:
        yield opened


def test_records_come_back_in_order_with_their_destination(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(2), metrics(1)])
    outbox.append(THERE, [metrics(1)])
    pending = outbox.pending(10)
    assert [(row.destination, row.record) for row in pending] == [
        (HERE, metrics(2)),
        (HERE, metrics(1)),
        (THERE, metrics(1)),
    ]
    assert [row.id for row in outbox.pending(2)] == [row.id for row in pending[:2]]


def test_a_record_appended_twice_is_there_once_even_after_its_delivery(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(1), metrics(1)])
    outbox.append(HERE, [metrics(1)])
    assert outbox.num_pending() == 1
    outbox.settle([outbox.pending(1)[0].id])
    outbox.append(HERE, [metrics(1), metrics(2)])
    assert [row.record for row in outbox.pending(10)] == [metrics(2)]
    assert outbox.counts() == OutboxCounts(pending=1, delivered=1, refused=0)


def test_nothing_of_an_append_is_kept_when_one_record_cannot_be(outbox: Outbox) -> None:
    with pytest.raises(TypeError):
        outbox.append(HERE, [metrics(1), RunReopened(run_key="s", at_ms=object())])  # type: ignore[arg-type]
    assert outbox.num_pending() == 0


def test_a_refused_record_leaves_the_queue_with_its_reason(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(1), metrics(2)])
    outbox.settle([], {outbox.pending(1)[0].id: "no such file"})
    assert [row.record for row in outbox.pending(10)] == [metrics(2)]
    (refused,) = outbox.refused()
    assert (refused.destination, refused.key, refused.error) == (
        HERE,
        metrics(1).key,
        "no such file",
    )


def test_destinations_wait_apart(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(1)])
    outbox.append(THERE, [metrics(2)])
    assert outbox.waiting() == [HERE, THERE]
    (row,) = outbox.pending(9, THERE)
    assert row.record == metrics(2)
    outbox.settle([row.id])
    assert outbox.waiting() == [HERE]


def test_many_records_are_marked_at_once(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(step) for step in range(1201)])
    outbox.settle([row.id for row in outbox.pending(1201)])
    assert outbox.counts() == OutboxCounts(pending=0, delivered=1201, refused=0)


def test_forgetting_a_study_forgets_its_trials_and_no_namesake(outbox: Outbox) -> None:
    outbox.append(HERE, [metrics(1, key) for key in ("s_1", "s_1/0", "s_1/1", "s_10/0", "sx1/0")])
    outbox.settle([outbox.pending(1)[0].id])
    assert outbox.forget("s_1") == 3
    assert [row.record.key for row in outbox.pending(9)] == [
        metrics(1, "s_10/0").key,
        metrics(1, "sx1/0").key,
    ]
    outbox.append(HERE, [metrics(1, "s_1")])
    assert outbox.num_pending() == 3


def test_what_was_pending_at_a_moment_can_be_counted_later(outbox: Outbox) -> None:
    assert outbox.last_id() == 0
    outbox.append(HERE, [metrics(1), metrics(2)])
    moment = outbox.last_id()
    outbox.append(HERE, [metrics(3)])
    outbox.settle([outbox.pending(1)[0].id])
    assert (outbox.num_pending(moment), outbox.num_pending()) == (1, 2)


def test_what_append_returned_from_survives_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    command = [sys.executable, "-c", WRITER, str(path), "s/0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(50)]
        os.kill(writer.pid, signal.SIGKILL)
        acknowledged += writer.stdout.readlines()
    last = int(acknowledged[-1])
    with Outbox(path) as outbox:
        kept = [row.record for row in outbox.pending(1_000_000)]
    steps = [record.step for record in kept if isinstance(record, MetricsLogged)]
    assert steps[: 3 * (last + 1)] == [step for step in range(last + 1) for _ in range(3)]
    assert len(steps) in (3 * (last + 1), 3 * (last + 2)), "an append was kept in part"


def test_processes_that_open_a_new_outbox_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), f"s/{number}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for writer in writers:
        with writer:
            assert writer.stdout is not None
            first = writer.stdout.readline()
            writer.kill()
        assert json.loads(first or "null") == 0
    with Outbox(path) as outbox:
        keys = {row.record.key for row in outbox.pending(1_000_000)}
    assert {f"s/{number}" for number in range(4)} == {key.split("#")[0] for key in keys}
