/* `gpupool run` without a terminal for the job: submits, waits for the start, attaches, returns the exit code. */
#ifndef FRONT_RUN_H
#define FRONT_RUN_H

#include "options.h"
#include "pool/api.h"

/* The exit code: the program's, or ours before it starts; or TO_PYTHON. */
int run(const struct options *options, struct api *api, struct slice body, const char *key);

#endif
