"""Messages about what happens in a pool: subscriptions of people, tenants and admins follow the event
log, and one sender delivers to mail and chat. The event log is the outbox, since an event is
written in the transaction that it tells of; a delivery is a row until it has arrived."""
