/* The path and the handle of the real library behind a stand-in. */
#ifndef GPUPOOL_DRIVER_H
#define GPUPOOL_DRIVER_H

/* The absolute path that this copy needs, from its own dynamic section; "" where it has none. */
const char *driver_path(void);

/* A handle of the library at that path, which the loader has mapped before this one; NULL with the reason told once. */
void *driver_handle(void);

#endif
