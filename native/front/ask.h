/* The body of POST /api/v1/jobs, as client/submission.py builds it. Asks nobody and writes nothing. */
#ifndef FRONT_ASK_H
#define FRONT_ASK_H

#include "options.h"
#include "text.h"

/* False: something in it is for Python to judge, and nothing has been done. */
bool ask_body(const struct options *options, char **environment, struct text *body);

#endif
