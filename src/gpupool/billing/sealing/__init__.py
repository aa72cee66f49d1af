"""Month seals: the lines of a month that is over, which never change, with a chain of hashes."""
