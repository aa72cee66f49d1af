"""Connections of bytes through the server, and programs that run at their other end."""
