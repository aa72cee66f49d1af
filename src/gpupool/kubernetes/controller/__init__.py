"""The placement controller: plans waiting pods, writes ledgers, and removes scheduling gates."""
