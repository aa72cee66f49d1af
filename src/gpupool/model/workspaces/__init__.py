"""Programs that a person works in through a browser, and how a job starts them: facts that the
command line, the server and the console share. Must not know how a job is submitted or reached.
Decision 0114.
"""
