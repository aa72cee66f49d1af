"""Services of the REST API: jobs, resizes, reservations, migrations, quotas, events."""
