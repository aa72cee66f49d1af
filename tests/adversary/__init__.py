"""Attacks and failures on a real pool, each with the outcome that the documents promise.

Run by `make test-adversary`. A file names its subject and carries `pytestmark =
pytest.mark.adversary`; `conftest.py` has the pool. All of them together fit in 6 minutes on two
processors.
"""
