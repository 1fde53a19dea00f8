"""The line between an attempt and its conductor."""

import socket
from typing import Protocol

from hpo.domain.decision import Decision
from hpo.execution.message import Answer, AttemptKey, Body, Message


class ChannelClosedError(Exception):
    """The other end is gone; an attempt without a conductor ends at once."""


class Channel(Protocol):
    """An attempt's end of the line.

    1. Messages arrive whole, once and in order, or the channel is closed.
    2. `ask` returns the answer to that very message.
    """

    def tell(self, body: Body) -> None:
        """Send something that needs no answer."""
        ...

    def ask(self, body: Body) -> Decision:
        """Send something and wait for the answer.

        Raises:
            ChannelClosedError: the conductor is gone.
        """
        ...


class SocketChannel:
    """A channel over a connected stream socket."""

    def __init__(self, connection: socket.socket, key: AttemptKey) -> None:
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._key = key
        self._sequence = 0

    def tell(self, body: Body) -> None:
        """Send something that needs no answer."""
        self._sequence += 1
        message = Message(key=self._key, sequence=self._sequence, body=body)
        try:
            self._connection.sendall(message.to_line())
        except OSError as error:
            raise ChannelClosedError from error

    def ask(self, body: Body) -> Decision:
        """Send something and wait for the answer."""
        self.tell(body)
        while True:
            try:
                line = self._lines.readline()
            except OSError as error:
                raise ChannelClosedError from error
            if not line:
                raise ChannelClosedError
            answer = Answer.from_line(line)
            if answer.sequence == self._sequence:
                return answer.decision


class LineBuffer:
    """Cuts a byte stream into whole lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the lines they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines
