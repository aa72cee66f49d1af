"""The machines of one network engine: the centre, which has OVN's databases, and the others, whose
switches and controllers connect to it over TLS. The pool is the certificate authority. The service
writes what each machine has to do and what it reports."""
