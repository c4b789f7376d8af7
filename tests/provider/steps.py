"""What the scripted provider is told to do, and what it remembers of each request.

A test describes one reply as a `Step`. A `Step` says everything that can be right or wrong with a
reply on the wire: its bytes, its framing, its pauses, and where and how the connection ends.
`Request` is the record of one request that the provider saw.
"""

from __future__ import annotations

import enum
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Union

Text = Union[str, bytes]
HeaderPairs = Sequence[tuple[Text, Text]]


class Framing(enum.Enum):
    """How the end of a reply's body is told."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    NONE = "none"  # neither Content-Length nor a body: 204, 304, or a script's own header


class End(enum.Enum):
    """How the provider ends a connection."""

    CLOSE = "close"  # FIN after what was written
    RESET = "reset"  # RST (SO_LINGER 0), what was not yet sent is lost
    HALF = "half"  # FIN of the provider's side only; it goes on reading, and never answers more


class Expect(enum.Enum):
    """What the provider does with `Expect: 100-continue`."""

    CONTINUE = "continue"  # 100 at once
    IGNORE = "ignore"  # no 100: waits for the body
    REFUSE = "refuse"  # 417 at once, body not read, connection closed


class When(enum.Enum):
    """A moment of a request at which the provider can end the connection without a byte."""

    HEAD = "head"  # the head was read, the body was not
    REQUEST = "request"  # the whole request was read


class Greeting(enum.Enum):
    """What happens to a new connection, before anything is read from it."""

    SERVE = "serve"
    SILENT = "silent"  # accepted, never read from, never written to: no TLS, no reply
    CLOSE = "close"
    RESET = "reset"


@dataclass(frozen=True)
class Interim:
    """One 1xx head."""

    status: int = 103
    reason: str = "Early Hints"
    headers: HeaderPairs = ()


@dataclass(frozen=True)
class Step:
    """One scripted reply. The defaults are a plain, well-formed, immediate 200."""

    status: int = 200
    reason: str | None = None
    headers: HeaderPairs = ()
    body: bytes | int = b""  # an int is a size: that many bytes of a fixed pattern
    framing: Framing = Framing.LENGTH
    length: int | None = None  # the Content-Length to state instead of the true one
    last_chunk: bool = True  # False: a chunked body without its end, and then the connection ends
    delay: float = 0.0  # seconds before the head
    piece: int | None = None  # body bytes per write (and per chunk); None: one write
    piece_delay: float = 0.0  # seconds between two pieces
    interim: Sequence[Interim] = ()  # 1xx heads, all in one write
    interim_early: bool = False  # True: before `delay`; False: in one write with the final head
    cut_at: int | None = None  # end the connection after this many bytes of the reply (head counts)
    cut_when: When | None = None  # end it at this moment, without a byte
    end: End = End.CLOSE  # how `cut_at`, `cut_when`, `last_chunk` and `close` end it
    silent: bool = False  # read the whole request, never answer, keep the connection
    stall_at: int | None = None  # after this many body bytes: nothing, for `stall_for` seconds
    stall_for: float | None = None  # None: for ever
    expect: Expect = Expect.CONTINUE
    close: bool = False  # end the connection after this reply
    idle: float | None = None  # close the connection when it was idle this long after this reply

    def payload(self) -> bytes:
        """The body's bytes."""
        return pattern(self.body) if isinstance(self.body, int) else self.body


Script = Union[Step, Callable[["Request"], Step]]


@dataclass
class Request:
    """One request that the provider saw; it is recorded when its head is complete."""

    method: str
    target: bytes  # exactly as it stood in the request line
    version: bytes
    lines: list[bytes]  # header lines without their line ends, in order
    connection: int  # connections are numbered from 1
    number: int  # requests on that connection are numbered from 1
    key: str | None
    monotonic: float = field(default_factory=time.monotonic)
    wall: float = field(default_factory=time.time)
    complete: bool = False  # the whole body was read
    body: bytes = b""  # the first bytes of the body, up to the provider's `keep`
    length: int = 0
    sha256: str = hashlib.sha256(b"").hexdigest()
    replied: bool = False  # the script's reply was written to its end

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        values = self.all(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """All values of a header, in order."""
        wanted = name.lower().encode("ascii")
        return [value for found, value in map(split_line, self.lines) if found.lower() == wanted]

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.split(b"?", 1)[0].decode("latin-1")


def split_line(line: bytes) -> tuple[bytes, str]:
    """Splits a header line into its name and its value without surrounding blanks."""
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t").decode("latin-1")


def pattern(size: int) -> bytes:
    """`size` bytes in which every place can be told from its neighbours."""
    unit = b"".join(b"%07d\n" % index for index in range(4096))
    return (unit * (size // len(unit) + 1))[:size]


def json_step(status: int, text: str, headers: HeaderPairs = (), **more: object) -> Step:
    """A reply with a JSON body."""
    pairs = [("Content-Type", "application/json"), *headers]
    return Step(status=status, headers=pairs, body=text.encode(), **more)  # type: ignore[arg-type]
