"""Sign-on and leavers in the SDK; `people.SignOn` has them all."""
