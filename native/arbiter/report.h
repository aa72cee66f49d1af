/* Writes lines to the agent on stdout, fields between tabs. An agent that does not read loses lines; a later line says how many. */
#ifndef GPUPOOL_ARBITER_REPORT_H
#define GPUPOOL_ARBITER_REPORT_H

void report_start(void);

/* One line; `format` holds the tabs between fields and no newline. An event is lost at once when the pipe is full, since tenants can
   cause many; an answer waits a little, once until the agent reads again. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
