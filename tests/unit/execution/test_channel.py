"""The line between an attempt and its conductor."""

import socket
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.domain.decision import CONTINUE, Action, Decision
from hpo.execution.channel import ChannelClosedError, LineBuffer, SocketChannel
from hpo.execution.entry_point import CONDUCTOR_GONE, run_entry_point
from hpo.execution.message import Answer, AttemptKey, Message, Progress, ProtocolError, Started

KEY = AttemptKey(trial=3, attempt=2, token="token")  # noqa: S106  # names an attempt


@given(st.lists(st.binary(max_size=5)))
def test_a_buffer_gives_each_whole_line_once_however_the_bytes_come(pieces: list[bytes]) -> None:
    buffer = LineBuffer()
    lines = [line for piece in pieces for line in buffer.feed(piece)]
    assert lines == b"".join(pieces).split(b"\n")[:-1]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, SocketChannel]]:
    """Return the conductor's end, and the channel at the other."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, SocketChannel(theirs, KEY)


def test_messages_are_numbered_from_one(ends: tuple[socket.socket, SocketChannel]) -> None:
    ours, channel = ends
    channel.tell(Started(resumed_epoch=0))
    channel.tell(Progress(epoch=1, fraction=0.5))
    messages = [Message.from_line(line) for line in LineBuffer().feed(ours.recv(10000))]
    assert [(message.key, message.sequence) for message in messages] == [(KEY, 1), (KEY, 2)]


def test_ask_returns_the_answer_to_that_very_message(
    ends: tuple[socket.socket, SocketChannel],
) -> None:
    ours, channel = ends
    prune = Decision(action=Action.PRUNE, reason="worse")
    for sequence, decision in ((0, CONTINUE), (9, CONTINUE), (1, prune)):
        ours.sendall(Answer(sequence=sequence, decision=decision).to_line())
    assert channel.ask(Started(resumed_epoch=0)) == prune


def test_a_channel_whose_other_end_is_gone_is_closed(
    ends: tuple[socket.socket, SocketChannel],
) -> None:
    ours, channel = ends
    channel.tell(Started(resumed_epoch=0))
    ours.close()
    with pytest.raises(ChannelClosedError):
        channel.ask(Progress(epoch=1, fraction=0.5))
    with pytest.raises(ChannelClosedError):
        channel.tell(Progress(epoch=1, fraction=0.5))


def test_an_answer_that_is_none_is_refused(ends: tuple[socket.socket, SocketChannel]) -> None:
    ours, channel = ends
    ours.sendall(b"no answer\n")
    with pytest.raises(ProtocolError):
        channel.ask(Started(resumed_epoch=0))


def test_a_job_that_outlives_its_channel_leaves_with_a_code_of_its_own() -> None:
    ours, theirs = socket.socketpair()
    ours.close()
    request = {
        "key": {"trial": 0, "attempt": 1, "token": "token"},
        "entry_point": "tests.contracts.entry_points:train",
        "payload": {"epochs": 1},
    }
    with theirs:
        assert run_entry_point(request, theirs) == CONDUCTOR_GONE
