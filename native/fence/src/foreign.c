#include "foreign.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "real.h"

static bool is_libcuda(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && !strncmp(name, "/libcuda.so", 11);
}

/* A line of /proc/self/maps: what file it is of, 0 for none of ours. */
static unsigned long inode_of(const char *line, char *path, uintptr_t *from, uintptr_t *to)
{
    unsigned long inode = 0;
    *path = 0;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %511[^\n]", from, to, &inode, path) < 3)
        return 0;
    return inode;
}

static bool holds(uintptr_t from, uintptr_t to, const void *address)
{
    return (uintptr_t)address >= from && (uintptr_t)address < to;
}

/* By an address and not by stat(2): on an overlay the two disagree about inodes. */
static unsigned long inode_at(FILE *maps, const void *address)
{
    char line[1024], path[512];
    uintptr_t from, to;
    rewind(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long inode = inode_of(line, path, &from, &to);
        if (holds(from, to, address))
            return inode;
    }
    return 0;
}

bool foreign_is_mapped(void)
{
    char line[1024], path[512];
    uintptr_t from, to;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return false;
    unsigned long own = inode_at(maps, (const void *)foreign_is_mapped);
    unsigned long driver = inode_at(maps, (const void *)fence_real.cuInit);
    bool found = false;
    rewind(maps);
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long inode = inode_of(line, path, &from, &to);
        found = inode && inode != own && inode != driver && is_libcuda(path);
    }
    fclose(maps);
    return found;
}
