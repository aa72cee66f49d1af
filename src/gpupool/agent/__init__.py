"""The only code that touches devices and processes. Imported by entry points, never by the server's
rooms."""
