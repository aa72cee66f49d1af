"""One file per revision, `NNNN_what_changed.py`, explicit and reviewed."""
