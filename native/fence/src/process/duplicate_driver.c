#include "duplicate_driver.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "real.h"

enum { CHUNK = 4096 /* the kernel gives a page at a time */, LONGEST = 1024, MOST = 8 };

/* What was seen of the map so far. By an address and not by stat(2): on an overlay the two disagree about inodes. */
struct look {
    unsigned long own, driver;       /* inodes of the fence and of the driver before which it stands */
    unsigned long libcuda[MOST];     /* of all files of that name */
    unsigned int count;
};

static bool is_libcuda(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && !strncmp(name, "/libcuda.so", 11);
}

static bool holds(uintptr_t from, uintptr_t to, const void *address)
{
    return (uintptr_t)address >= from && (uintptr_t)address < to;
}

static void note_libcuda(struct look *look, unsigned long inode)
{
    for (unsigned int i = 0; i < look->count; i++)
        if (look->libcuda[i] == inode)
            return;
    if (look->count < MOST)
        look->libcuda[look->count++] = inode;
}

/* FROM-TO ACCESS OFFSET DEVICE INODE PATH, proc(5). */
static void read_line(struct look *look, const char *line)
{
    char *at;
    uintptr_t from = strtoul(line, &at, 16), to = *at == '-' ? strtoul(at + 1, &at, 16) : 0;
    for (int field = 0; field < 3; field++) {
        at += strspn(at, " ");
        at += strcspn(at, " ");
    }
    unsigned long inode = strtoul(at, &at, 10);
    if (!inode)
        return;
    if (holds(from, to, (const void *)has_duplicate_driver))
        look->own = inode;
    if (holds(from, to, (const void *)fence_real.cuInit))
        look->driver = inode;
    if (is_libcuda(at))
        note_libcuda(look, inode);
}

/* One pass: when many programs start at one moment, what each makes the kernel write of its map is what they wait for. */
static void read_map(struct look *look, int file)
{
    char text[LONGEST + CHUNK + 1];
    size_t held = 0;
    ssize_t size;
    while ((size = read(file, text + held, CHUNK)) > 0) {
        char *line = text, *end;
        held += (size_t)size;
        text[held] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            read_line(look, line);
        }
        held = (size_t)(text + held - line);
        if (held > LONGEST)
            held = 0; /* a path that is none of a libcuda's */
        memmove(text, line, held);
    }
}

bool has_duplicate_driver(void)
{
    struct look look = {0};
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    read_map(&look, file);
    close(file);
    for (unsigned int i = 0; i < look.count; i++)
        if (look.libcuda[i] != look.own && look.libcuda[i] != look.driver)
            return true;
    return false;
}
