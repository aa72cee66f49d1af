/* Lines to the agent on stdout: fields between tabs. Never blocks: an agent that does not read loses lines and is told how many. */
#ifndef GPUPOOL_ARBITER_REPORT_H
#define GPUPOOL_ARBITER_REPORT_H

void report_start(void);

/* One line; `format` holds the tabs between fields and no newline. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
