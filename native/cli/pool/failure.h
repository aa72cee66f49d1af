/* Failures after the request was sent, and their messages on stderr; base/errors and terminal/output.py in C. */
#ifndef FRONT_FAILURE_H
#define FRONT_FAILURE_H

#include "common/text.h"

/* How a step ended: well, with a failure that is described, or because the user wants to end. */
enum outcome { DONE, FAILED, INTERRUPTED };

enum { EXIT_INTERRUPTED = 130, EXIT_BROKEN_PIPE = 141 };

struct failure {
    struct text code, message, hint;
    int exit_code;
    bool unavailable; /* the pool is away: it may come back */
};

/* Describe a failure; what was described before is forgotten. Always FAILED. */
__attribute__((format(printf, 4, 5))) enum outcome fail(struct failure *failure, const char *code, const char *hint,
                                                        const char *format, ...);
enum outcome fail_with(struct failure *failure, struct slice code, struct slice message, struct slice hint);
/* A defect of the pool's answer, told as Python tells an exception. */
enum outcome fail_defect(struct failure *failure, const char *exception);
bool failure_is(const struct failure *failure, const char *code);
void failure_free(struct failure *failure);

/* `gpupool: GP-1001: what happened` and, indented, what to type next. The exit code. */
int failure_print(const struct failure *failure);
/* `gpupool: text`, one line, one write. */
void say(const struct text *line);
/* All of it; false and errno when it could not be written. */
bool write_all(int fd, struct slice bytes);

#endif
