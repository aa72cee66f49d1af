"""The chart, installed from an image built without a network, on the real node."""
