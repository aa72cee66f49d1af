/* What is used of libdl.so.2, by name. */
#define HAS(name) void name(void) { }

HAS(dladdr)
HAS(dlclose)
HAS(dlinfo)
HAS(dlopen)
HAS(dlsym)
