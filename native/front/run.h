/* `gpupool run` without a terminal of its own for the job: submitted, waited for, attached, seen to its end. */
#ifndef FRONT_RUN_H
#define FRONT_RUN_H

#include "api.h"
#include "options.h"

/* The exit code: the program's, or ours before it starts. */
int run(const struct options *options, struct api *api, struct slice body, const char *key);

#endif
