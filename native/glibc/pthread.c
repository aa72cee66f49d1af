/* What is used of libpthread.so.0 and was not in libc as well, by name. */
#define HAS(name) void name(void) { }

HAS(pthread_attr_setstacksize)
HAS(pthread_create)
HAS(pthread_key_create)
HAS(pthread_mutex_timedlock)
HAS(pthread_mutex_trylock)
HAS(pthread_once)
HAS(pthread_rwlock_rdlock)
HAS(pthread_rwlock_unlock)
HAS(pthread_rwlock_wrlock)
HAS(pthread_setspecific)
HAS(pthread_sigmask)
