"""Routes below /api/v1. Thin: parse, ask the service, answer."""
