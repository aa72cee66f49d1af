/* Paths that the agent wrote into this copy of the stand-in, and the one way to print a message. */
#ifndef GPUPOOL_STANDIN_PATH_H
#define GPUPOOL_STANDIN_PATH_H

/* The base directory that the agent filled into this copy. */
const char *standin_base(void);

/* One line on stderr, "gpupool: ...", whatever the program has done with stdio. */
void print_message(const char *text);

#endif
