"""Access to the API server: connections, credentials, requests, informers, leader election and
write throttling."""
