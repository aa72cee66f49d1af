"""Arrays: many equal jobs in one row; a member gets a job's row when it is placed (decision 0015).

`references` names members without a row, `rest` holds those that wait in the queue, `members`
creates their rows, `ending` stops the rest and counts how members ended, `view` describes them.
"""
