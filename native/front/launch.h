/* The command and its surroundings, exactly as this process has them: words, directory, environment, umask, limits. */
#ifndef FRONT_LAUNCH_H
#define FRONT_LAUNCH_H

#include "text.h"

/* False: something is odd (text that is no UTF-8, no such command, a directory that is gone) and Python will say so. */
bool launch_capture(char **words, size_t count, char **environment, struct text *body);

#endif
