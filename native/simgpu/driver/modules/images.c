/* What code looks like: PTX text, a cubin (ELF), a fat binary or the compiler's wrapper of one.

   Text and cubins are read for the names of their kernels and variables. Fat binaries are usually compressed: they are
   taken as having every name that is asked for. */
#include "module.h"

#include <ctype.h>
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAPPER_MAGIC 0x466243b1u /* of the struct that __cudaRegisterFatBinary gets */
#define FATBIN_MAGIC 0xba55ed50u
#define LARGEST_FILE ((off_t)1 << 30)

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

static char *copy_name(const char *name, size_t length)
{
    char *copy = malloc(length + 1);

    if (copy) {
        memcpy(copy, name, length);
        copy[length] = 0;
    }
    return copy;
}

struct entry *image_add_entry(struct image *image, const char *name, size_t length)
{
    struct entry *entry = calloc(1, sizeof *entry);

    if (!entry || !(entry->name = copy_name(name, length))) {
        free(entry);
        return NULL;
    }
    entry->params = -1;
    if (image->last)
        image->last->next = entry;
    else
        image->entries = entry;
    image->last = entry;
    return entry;
}

struct variable *image_add_variable(struct image *image, const char *name, size_t length, size_t size)
{
    struct variable *variable = calloc(1, sizeof *variable);

    if (!variable || !(variable->name = copy_name(name, length))) {
        free(variable);
        return NULL;
    }
    variable->size = size;
    variable->next = image->variables;
    image->variables = variable;
    return variable;
}

void image_free(struct image *image)
{
    for (struct entry *entry = image->entries, *next; entry; entry = next) {
        next = entry->next;
        free(entry->name);
        free(entry->param);
        free(entry);
    }
    for (struct variable *variable = image->variables, *next; variable; variable = next) {
        next = variable->next;
        free(variable->name);
        free(variable);
    }
    *image = (struct image){0};
}

struct entry *image_entry(struct image *image, const char *name)
{
    for (struct entry *entry = image->entries; entry; entry = entry->next)
        if (!strcmp(entry->name, name))
            return entry;
    return image->open ? image_add_entry(image, name, strlen(name)) : NULL;
}

#define OPEN_VARIABLE_BYTES 65536u /* a variable of an image that cannot be read: at most what constant memory holds */

struct variable *image_variable(struct image *image, const char *name)
{
    for (struct variable *variable = image->variables; variable; variable = variable->next)
        if (!strcmp(variable->name, name))
            return variable;
    return image->open ? image_add_variable(image, name, strlen(name), OPEN_VARIABLE_BYTES) : NULL;
}

/* A kernel's code lies in a section .text.NAME; a variable is an object symbol. */
static CUresult read_elf(const char *data, struct image *image)
{
    const Elf64_Ehdr *header = (const void *)data;
    const Elf64_Shdr *sections = (const void *)(data + header->e_shoff);

    REQUIRE(header->e_ident[EI_CLASS] == ELFCLASS64, CUDA_ERROR_INVALID_IMAGE);
    if (!header->e_shoff || header->e_shstrndx >= header->e_shnum) {
        image->open = true;
        return CUDA_SUCCESS;
    }
    const char *names = data + sections[header->e_shstrndx].sh_offset;
    for (unsigned at = 0; at < header->e_shnum; ++at) {
        const char *name = names + sections[at].sh_name;
        if (!strncmp(name, ".text.", 6) && name[6])
            image_add_entry(image, name + 6, strlen(name + 6));
        if (sections[at].sh_type != SHT_SYMTAB || sections[at].sh_link >= header->e_shnum)
            continue;
        const Elf64_Sym *symbols = (const void *)(data + sections[at].sh_offset);
        const char *texts = data + sections[sections[at].sh_link].sh_offset;
        for (size_t one = 0; one < sections[at].sh_size / sizeof *symbols; ++one)
            if (ELF64_ST_TYPE(symbols[one].st_info) == STT_OBJECT && symbols[one].st_size)
                image_add_variable(image, texts + symbols[one].st_name, strlen(texts + symbols[one].st_name),
                                   symbols[one].st_size);
    }
    return CUDA_SUCCESS;
}

CUresult image_read(const void *data, struct image *image)
{
    uint32_t magic;

    REQUIRE(data, CUDA_ERROR_INVALID_VALUE);
    memcpy(&magic, data, sizeof magic);
    if (magic == WRAPPER_MAGIC) {
        data = ((const struct wrapper *)data)->data;
        REQUIRE(data, CUDA_ERROR_INVALID_IMAGE);
        memcpy(&magic, data, sizeof magic);
        REQUIRE(magic == FATBIN_MAGIC, CUDA_ERROR_INVALID_IMAGE);
    }
    if (magic == FATBIN_MAGIC) {
        image->open = true;
        return CUDA_SUCCESS;
    }
    if (!memcmp(data, ELFMAG, SELFMAG))
        return read_elf(data, image);
    return ptx_read(data, image);
}

static char *read_whole(const char *path)
{
    struct stat facts;
    size_t have = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return NULL;
    char *data = fstat(file, &facts) || facts.st_size > LARGEST_FILE ? NULL : calloc(1, (size_t)facts.st_size + 1);
    while (data && have < (size_t)facts.st_size) {
        ssize_t got = read(file, data + have, (size_t)facts.st_size - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    close(file);
    return data;
}

static bool sections_inside(const char *data, size_t size)
{
    const Elf64_Ehdr *header = (const void *)data;

    if (size < sizeof *header)
        return false;
    if (header->e_shoff + (uint64_t)header->e_shnum * sizeof(Elf64_Shdr) > size)
        return false;
    const Elf64_Shdr *sections = (const void *)(data + header->e_shoff);
    for (unsigned at = 0; at < header->e_shnum; ++at)
        if (sections[at].sh_type != SHT_NOBITS && sections[at].sh_offset + sections[at].sh_size > size)
            return false;
    return true;
}

CUresult image_read_file(const char *path, struct image *image)
{
    struct stat facts;

    REQUIRE(path, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(stat(path, &facts) == 0, CUDA_ERROR_FILE_NOT_FOUND);
    char *data = read_whole(path);
    REQUIRE(data, CUDA_ERROR_FILE_NOT_FOUND);
    bool whole = facts.st_size >= 4 && (memcmp(data, ELFMAG, SELFMAG) || sections_inside(data, (size_t)facts.st_size));
    CUresult read = whole ? image_read(data, image) : CUDA_ERROR_INVALID_IMAGE;
    free(data);
    return read;
}
