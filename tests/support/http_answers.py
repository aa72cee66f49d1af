"""Bytes of answers as an API server sends them."""

from __future__ import annotations

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\nhello"
