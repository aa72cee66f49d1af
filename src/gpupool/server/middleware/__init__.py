"""Layers around every route: authentication, body limits, idempotency, leadership, request
metrics."""
