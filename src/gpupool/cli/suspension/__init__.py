"""Commands that take a running job off its cards and bring it back."""
