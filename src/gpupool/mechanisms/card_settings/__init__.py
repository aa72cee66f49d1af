"""Settings of a card that hold for every program on it, such as the compute mode: how the driver
reads and writes them, and the record from which they are restored."""
