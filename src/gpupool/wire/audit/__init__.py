"""The audit log over the network and in files: its records, and the chain of their hashes."""
