"""Power and price as terms that are subtracted from the score of another policy."""
