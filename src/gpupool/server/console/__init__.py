"""What the server has for the web console: its static files, logins of browsers, and the listener
that a pool on a Unix socket opens for it. Decision 0098."""
