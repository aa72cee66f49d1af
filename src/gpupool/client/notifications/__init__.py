"""Messages by mail and chat in the SDK."""
