"""Advice on shares in the pool: reads families from jobs and the books, prices what they save.

`gpupool.rightsizing` decides; nothing here changes a job. A resize is asked for as any other. See
decision 0111.
"""
