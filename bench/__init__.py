"""Every figure the docs quote, each with the command that makes it. See bench/README.md."""
