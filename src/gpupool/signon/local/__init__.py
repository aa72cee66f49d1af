"""Local accounts: passwords, codes of an authenticator, and the lock after wrong ones."""
