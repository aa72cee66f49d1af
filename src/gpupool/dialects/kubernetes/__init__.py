"""One file per system whose requests stand in pods: labels, annotations and resources become the
normal form."""
