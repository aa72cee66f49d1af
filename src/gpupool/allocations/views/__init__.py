"""What users are shown: jobs, lists, capacity, quotas, events, and explanations."""
