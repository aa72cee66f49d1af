"""The state directory: its layout and files, start, backup and removal."""
