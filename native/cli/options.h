/* Which command lines the front door understands: one table, no abbreviations, no errors of its own.
 *
 * Mirrors terminal/share_options.py and the leading options of cli/main.py. Whatever is not in the table, or has no value
 * where it needs one, is not understood, and the Python command says what is wrong with it. */
#ifndef FRONT_OPTIONS_H
#define FRONT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum command { COMMAND_RUN = 1, COMMAND_SUBMIT = 2 };
enum { LABELS_MAX = 32, WORDS_MAX = 4096 };

/* As typed; NULL or false: not given. */
struct options {
    enum command command;
    const char *state_dir, *gpu, *memory, *count, *model, *sharing, *name, *priority, *max_time, *tenant, *project;
    const char *array, *output;
    const char *labels[LABELS_MAX];
    size_t label_count;
    bool no_wait, no_fence, quiet, verbose, no_color;
    char **words; /* the command to run, up to a NULL; never empty */
    size_t word_count;
};

/* The words of the command line, argv[0] included. False: not understood. */
bool options_read(int argc, char **argv, struct options *options);

#endif
