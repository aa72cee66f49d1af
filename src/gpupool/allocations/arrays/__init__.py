"""Arrays: many jobs alike as one row, of which a member becomes a job when it is placed (decision 0015).

`references` names members that are no job yet, `rest` is what of an array still waits in the queue, `members` makes
jobs of them, `ending` stops what is left and counts how members ended, `view` shows them.
"""
