"""Why a stream is not opened."""

from __future__ import annotations


class StreamRefusal(Exception):
    """The text is for the user of the stream."""
