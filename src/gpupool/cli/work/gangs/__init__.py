"""Gangs on the command line: submitted, waited for and followed as one command."""
