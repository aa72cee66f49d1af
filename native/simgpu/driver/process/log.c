/* GPUPOOL_SIMGPU_LOG names a file that gets a line for each call of an unsupported function, each look-up of an unknown
   name and each refused table. Without it nothing is written. The same calls are counted for simgpu_unsupported_count. */
#include "driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices/card.h"
#include "simgpu_driver.h"

#define MAX_COUNTED 1024

static _Atomic int log_file = -1;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static struct counted {
    const char *symbol;
    unsigned long calls;
} counted[MAX_COUNTED];
static unsigned counted_symbols;

static void open_log(void)
{
    const char *path = secure_getenv("GPUPOOL_SIMGPU_LOG");

    if (path && *path)
        log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

void log_start(void)
{
    pthread_once(&log_once, open_log);
}

bool log_enabled(void)
{
    log_start();
    return log_file >= 0;
}

void log_line(const char *format, ...)
{
    char line[1024];
    va_list arguments;

    if (!log_enabled())
        return;
    int length = snprintf(line, sizeof line, "%d ", (int)getpid());
    va_start(arguments, format);
    int added = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    length += added < 0 ? 0 : added;
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    if (write(log_file, line, (size_t)length) < 0)
        log_file = -1; /* a full disk must not be retried at every call */
}

static void describe(const void *caller, char *text, size_t size)
{
    Dl_info where;

    if (!caller || !dladdr(caller, &where) || !where.dli_fname) {
        snprintf(text, size, "?");
        return;
    }
    const char *name = strrchr(where.dli_fname, '/');
    snprintf(text, size, "%s+0x%lx", name ? name + 1 : where.dli_fname,
             (unsigned long)((const char *)caller - (const char *)where.dli_fbase));
}

static void count(const char *symbol)
{
    unsigned at = 0;

    pthread_mutex_lock(&count_lock);
    while (at < counted_symbols && strcmp(counted[at].symbol, symbol))
        ++at;
    if (at < MAX_COUNTED) {
        if (at == counted_symbols)
            counted[counted_symbols++].symbol = symbol;
        ++counted[at].calls;
    }
    pthread_mutex_unlock(&count_lock);
}

CUresult unsupported(const char *symbol, const void *caller)
{
    char where[256];

    count(symbol);
    card_count_unsupported();
    if (log_enabled()) {
        describe(caller, where, sizeof where);
        log_line("unsupported %s from %s", symbol, where);
    }
    return driver_state == DRIVER_FORKED ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_NOT_SUPPORTED;
}

unsigned simgpu_unsupported_count(void)
{
    pthread_mutex_lock(&count_lock);
    unsigned symbols = counted_symbols;
    pthread_mutex_unlock(&count_lock);
    return symbols;
}

const char *simgpu_unsupported_name(unsigned index, unsigned long *calls)
{
    const char *name = NULL;

    pthread_mutex_lock(&count_lock);
    if (index < counted_symbols) {
        name = counted[index].symbol;
        if (calls)
            *calls = counted[index].calls;
    }
    pthread_mutex_unlock(&count_lock);
    return name;
}
