/* Reads the dynamic symbols of a loaded library: what it exports and the table does not know. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "table.h"

struct dynamic {
    const ElfW(Sym) * symbols;
    const char *strings;
    size_t count;
};

/* DT_GNU_HASH has no count: it is one more than the last symbol of the last chain (bit 0 ends a chain). */
static size_t count_by_gnu_hash(const uint32_t *hash)
{
    uint32_t buckets = hash[0], first = hash[1], last = 0;
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(hash + 4) + hash[2]), *chain = bucket + buckets;
    for (uint32_t i = 0; i < buckets; i++)
        if (bucket[i] > last)
            last = bucket[i];
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

static bool read_dynamic(const ElfW(Dyn) * entry, struct dynamic *into)
{
    *into = (struct dynamic){0};
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *at = (const void *)entry->d_un.d_ptr; /* glibc has made these absolute */
        if (entry->d_tag == DT_SYMTAB)
            into->symbols = at;
        if (entry->d_tag == DT_STRTAB)
            into->strings = at;
        if (entry->d_tag == DT_HASH)
            into->count = ((const uint32_t *)at)[1];
        if (entry->d_tag == DT_GNU_HASH && !into->count)
            into->count = count_by_gnu_hash(at);
    }
    return into->symbols && into->strings && into->count;
}

static bool is_public_function(const ElfW(Sym) * symbol, const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    unsigned char type = ELF64_ST_TYPE(symbol->st_info);
    return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC) &&
           !strncmp(name, prefix, length) && name[length] >= 'A' && name[length] <= 'Z';
}

int fence_table_unclassified(const struct fence_table *table, void *handle, void (*seen)(const char *name, void *context),
                             void *context)
{
    struct link_map *map = NULL;
    struct dynamic dynamic;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map || !read_dynamic(map->l_ld, &dynamic))
        return -1;
    int unknown = 0;
    for (size_t i = 1; i < dynamic.count; i++) {
        const char *name = dynamic.strings + dynamic.symbols[i].st_name;
        if (!is_public_function(&dynamic.symbols[i], name, table->prefix) || fence_table_find(table, name))
            continue;
        unknown++;
        if (seen)
            seen(name, context);
    }
    return unknown;
}
