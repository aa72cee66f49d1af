"""Fuzz targets for the parsers that read a tenant's bytes, and the inputs that every change must
survive.

A target is `fuzz_NAME.c` with libFuzzer's entry point over the shipped sources. `make bench
ARGS=fuzz` searches with clang, five minutes for each; `test_corpus.py` replays corpus/NAME with a
plain compiler. A new crash goes there as a file, with its mend. Parsers in Python have their
targets in `python_targets.py` and are searched by Atheris.
"""
