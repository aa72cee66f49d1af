"""Where frames of WebSockets end, however their bytes are cut."""

from __future__ import annotations

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from gpupool.serving.frames import FrameTracker, make_close_frame

KINDS = {"from-replica": ConnectionType.SERVER, "from-caller": ConnectionType.CLIENT}


def make_frames(kind: ConnectionType) -> list[bytes]:
    """Frames with lengths of each kind, as wsproto writes them."""
    sender = Connection(kind)
    messages = [
        TextMessage(data="short"),
        TextMessage(data=""),
        BytesMessage(data=b"x" * 126),
        Ping(payload=b"p"),
        BytesMessage(data=b"y" * 70_000),
    ]
    return [sender.send(message) for message in messages]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 1000, 1 << 20])
def test_a_tracker_knows_the_end_of_each_frame(kind: str, size: int) -> None:
    tracker = FrameTracker()
    for frame in make_frames(KINDS[kind]):
        for begin in range(0, len(frame), size):
            assert tracker.is_between == (begin == 0)
            tracker.feed(frame[begin : begin + size])
        assert tracker.is_between
    assert not tracker.has_closed


def test_feed_one_stops_at_the_end_of_a_frame() -> None:
    first, _, second, *_ = make_frames(ConnectionType.SERVER)
    tracker = FrameTracker()
    tracker.feed(first[:3])
    rest = memoryview(first[3:] + second)
    assert tracker.feed_one(rest) == len(first) - 3
    assert tracker.is_between
    assert tracker.feed_one(rest[len(first) - 3 :]) == len(second)


@pytest.mark.parametrize("kind", KINDS)
def test_a_close_frame_is_read_by_the_other_side_and_seen_by_the_tracker(kind: str) -> None:
    from_caller = kind == "from-caller"
    frame = make_close_frame(1001, from_client=from_caller)
    reader = Connection(ConnectionType.SERVER if from_caller else ConnectionType.CLIENT)
    reader.receive_data(frame)
    (event,) = reader.events()
    assert isinstance(event, CloseConnection)
    assert event.code == 1001
    tracker = FrameTracker()
    tracker.feed(frame)
    assert tracker.has_closed
    assert tracker.is_between
