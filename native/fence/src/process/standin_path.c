#include "standin_path.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Filled in a copy of the library by gpupool/mechanisms/driver/standin.py. */
#define BASE_ROOM 256
__attribute__((used)) static const char base_placeholder[BASE_ROOM] = "@GPUPOOL-FENCE-BASE@";

/* Read through a volatile pointer: the compiler must not know what is in it. */
const char *standin_base(void)
{
    const char *volatile base = base_placeholder;
    return base;
}

void print_message(const char *text)
{
    struct iovec line[] = {{"gpupool: ", 9}, {(char *)text, strlen(text)}, {"\n", 1}};
    ssize_t written = writev(STDERR_FILENO, line, 3); /* nowhere to tell of a failure */
    (void)written;
}
