"""Sign-on: logins by an identity provider, a directory or a password, and the rights they give."""
