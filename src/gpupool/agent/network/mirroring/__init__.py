"""Makes the mirrors of jobs of this machine, also to and from other machines, and reads back what they copy."""
