"""The command line. `main.entry` is the door; one module per command or group of commands."""
