#include "driver.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>

#include "standin_path.h"

static void *handle;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* The loader has relocated DT_STRTAB in place on the machines we build for (x86-64, aarch64 with glibc). */
static const char *strings(void)
{
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_STRTAB)
            return (const char *)entry->d_un.d_ptr;
    return NULL;
}

const char *driver_path(void)
{
    const char *names = strings();
    for (const ElfW(Dyn) *entry = _DYNAMIC; names && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_NEEDED && names[entry->d_un.d_val] == '/')
            return names + entry->d_un.d_val;
    return "";
}

static void open_driver(void)
{
    handle = dlopen(driver_path(), RTLD_NOW | RTLD_NOLOAD);
    if (!handle)
        print_message("this copy of the fence names no driver that is mapped: it was not prepared for a job");
}

void *driver_handle(void)
{
    pthread_once(&opened, open_driver);
    return handle;
}
