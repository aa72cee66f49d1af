"""The command line: `main.entry`, and one module per command or group of commands."""
