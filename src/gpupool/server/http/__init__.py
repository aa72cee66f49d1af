"""HTTP: listeners, connection limits, TLS, the protocol, and errors as problem documents (RFC
9457)."""
