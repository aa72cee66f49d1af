/* Builds the body of POST /api/v1/jobs, as client/submission.py does. Sends nothing and writes nothing. */
#ifndef FRONT_SUBMISSION_H
#define FRONT_SUBMISSION_H

#include "common/text.h"
#include "options.h"

/* False: something in it is for Python to judge, and nothing has been done. */
bool build_submission(const struct options *options, char **environment, struct text *body);

#endif
