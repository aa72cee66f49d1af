"""Status for users: pod conditions, and the status of tenants, reservations, settings and nodes."""
