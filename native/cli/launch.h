/* The command with the surroundings of this process: arguments, directory, environment, umask, limits. */
#ifndef FRONT_LAUNCH_H
#define FRONT_LAUNCH_H

#include "common/text.h"

/* False: something is odd (text that is no UTF-8, no such command, a directory that is gone) and Python will say so. */
bool capture_launch(char **words, size_t count, char **environment, struct text *body);

#endif
