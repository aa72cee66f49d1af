"""Frames come out as they went in, wherever the bytes are divided."""

from __future__ import annotations

import pytest

from gpupool.client.streams.frames import (
    INPUT,
    INPUT_END,
    MOST_CONTENT,
    OUTPUT,
    BrokenFrameError,
    FrameReader,
    decode_size,
    encode_frame,
    encode_size,
)

FRAMES = [(INPUT, b"abc"), (INPUT_END, b""), (OUTPUT, b"x" * 70000)]


@pytest.mark.parametrize("step", [1, 3, 4096, 1 << 20])
def test_feed_in_any_pieces_returns_the_frames(step: int) -> None:
    data = b"".join(encode_frame(*frame) for frame in FRAMES)
    reader = FrameReader()
    found = list[tuple[int, bytes]]()
    for start in range(0, len(data), step):
        found += reader.feed(data[start : start + step])
    assert found == FRAMES


def test_feed_of_a_frame_that_is_too_long_is_refused() -> None:
    head = encode_frame(OUTPUT)[:1] + (MOST_CONTENT + 1).to_bytes(4, "big")
    with pytest.raises(BrokenFrameError):
        FrameReader().feed(head)


def test_decode_size_returns_rows_and_columns() -> None:
    assert decode_size(encode_size(33, 99)[5:]) == (33, 99)
    with pytest.raises(BrokenFrameError):
        decode_size(b"123")
