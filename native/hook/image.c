#include "image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE "x86_64"
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
#define ARCHITECTURE "aarch64"
enum { MACHINE = EM_AARCH64 };
#else
#error "this machine's kind has no name here"
#endif

/* Where the loaders of Debian and Ubuntu, of Red Hat, and of those with one folder for everything look. */
static const char *const FOLDERS[] = {
    "/lib/" ARCHITECTURE "-linux-gnu", "/usr/lib/" ARCHITECTURE "-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
};
/* The names of versions stand in the library's own string table, each ended by a NUL (Drepper, ELF Symbol Versioning). */
static const char MARK[] = "GLIBC_";

static const char *read_number(const char *at, unsigned *number)
{
    char *end;
    unsigned long found = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 1000;

    *number = (unsigned)found;
    return found < 1000 ? end : NULL;
}

bool version_read(const char *text, struct version *version)
{
    const char *at = read_number(text, &version->major);

    if (!at || *at != '.')
        return false;
    at = read_number(at + 1, &version->minor);
    return at && !*at;
}

bool version_before(struct version one, struct version other)
{
    return one.major != other.major ? one.major < other.major : one.minor < other.minor;
}

static bool our_kind(const char *bytes, size_t length)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)bytes;

    return length > sizeof *head && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64
        && head->e_machine == MACHINE;
}

/* The newest version that the bytes name; false where they name none. */
static bool newest(const char *bytes, size_t length, struct version *found)
{
    const char *at = bytes, *end = bytes + length;
    bool any = false;

    while ((at = memmem(at, (size_t)(end - at), MARK, sizeof MARK - 1))) {
        struct version one;
        at += sizeof MARK - 1;
        if (!memchr(at, '\0', (size_t)(end - at)))
            break;
        if (version_read(at, &one) && (!any || version_before(*found, one))) {
            *found = one;
            any = true;
        }
    }
    return any;
}

static bool glibc_of(const char *path, struct version *found)
{
    struct stat about;

    if (stat(path, &about) || !S_ISREG(about.st_mode)) /* looked at before it is opened: a device would act */
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    size_t length = (size_t)about.st_size;
    void *bytes = mmap(NULL, length, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (bytes == MAP_FAILED)
        return false;
    bool any = our_kind(bytes, length) && newest(bytes, length, found);
    munmap(bytes, length);
    return any;
}

bool image_glibc(struct version *found)
{
    char path[128];

    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        snprintf(path, sizeof path, "%s/libc.so.6", FOLDERS[i]);
        if (glibc_of(path, found))
            return true;
    }
    return false;
}

bool image_has_musl(void)
{
    struct stat about;

    return stat("/lib/ld-musl-" ARCHITECTURE ".so.1", &about) == 0; /* the one place that musl's programs name */
}
