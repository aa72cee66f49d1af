/* Says who owns what a program gets for a name, by every way in that a program has.

   probe WAY SONAME CLIENT < names      a line "name \t file \t symbol there" each; "-" for nothing
   probe lookup SONAME CLIENT < "base version flags" lines */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct linked {
    const char *name;
    void *address;
};

extern const struct linked probe_linked[];
const struct linked *probe_table(void); /* in the client library: what the loader bound its names to */

static void *library, *client;

static void fail(const char *what)
{
    fprintf(stderr, "probe: %s: %s\n", what, dlerror());
    exit(2);
}

static void *must(void *thing, const char *what)
{
    if (!thing)
        fail(what);
    return thing;
}

static void say(const char *name, void *address)
{
    Dl_info info = {0};
    int found = address && dladdr(address, &info) && info.dli_fname;
    const char *symbol = found && info.dli_sname && info.dli_saddr == address ? info.dli_sname : "-";
    printf("%s\t%s\t%s\n", name, found ? info.dli_fname : "-", symbol);
}

static void *in(const struct linked *table, const char *name)
{
    for (; table->name; table++)
        if (!strcmp(table->name, name))
            return table->address;
    return NULL;
}

static void *in_client(const char *name)
{
    const struct linked *(*table)(void) = (const struct linked *(*)(void))must(dlsym(client, "probe_table"), "client");
    return in(table(), name);
}

static void *by_link(const char *name) { return in(probe_linked, name); }
static void *by_dlsym(const char *name) { return dlsym(library, name); }
static void *by_dlvsym(const char *name) { return dlvsym(library, name, "CUDA_1"); }
static void *by_default(const char *name) { return dlsym(RTLD_DEFAULT, name); }
static void *by_next(const char *name) { return dlsym(RTLD_NEXT, name); }

static const struct way {
    const char *name;
    void *(*find)(const char *);
    int flags;     /* of opening the library and the client */
    int is_apart;  /* in a namespace of its own */
} ways[] = {
    {"link", by_link, RTLD_NOW, 0},           {"dlsym", by_dlsym, RTLD_NOW, 0},
    {"dlvsym", by_dlvsym, RTLD_NOW, 0},       {"default", by_default, RTLD_NOW, 0},
    {"next", by_next, RTLD_NOW, 0},           {"client", in_client, RTLD_NOW, 0},
    {"lazy", by_dlsym, RTLD_LAZY | RTLD_GLOBAL, 0},
    {"deepbind", by_dlsym, RTLD_NOW | RTLD_DEEPBIND, 0},
    {"deepbind-client", in_client, RTLD_NOW | RTLD_DEEPBIND, 0},
    {"dlmopen", by_dlsym, RTLD_NOW, 1},       {"dlmopen-client", in_client, RTLD_NOW, 1},
};

static void *open_as(const struct way *way, const char *file)
{
    void *opened = way->is_apart ? dlmopen(LM_ID_NEWLM, file, way->flags) : dlopen(file, way->flags);
    return must(opened, file);
}

static void say_lookup(const char *base, int version, unsigned long long flags)
{
    int (*first)(const char *, void **, int, unsigned long long) = dlsym(library, "cuGetProcAddress");
    int (*second)(const char *, void **, int, unsigned long long, int *) = dlsym(library, "cuGetProcAddress_v2");
    void *found = NULL;
    int status = -1;
    say(base, first(base, &found, version, flags) ? NULL : found);
    say(base, second(base, &found, version, flags, &status) ? NULL : found);
}

int main(int argc, char **argv)
{
    char line[256], base[200];
    int version;
    unsigned long long flags;
    const struct way *way = ways + 1;
    if (argc != 4)
        return 2;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (!strcmp(argv[1], ways[i].name))
            way = &ways[i];
    library = open_as(way, argv[2]);
    if (way->find == in_client)
        client = open_as(way, argv[3]);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strcmp(argv[1], "lookup"))
            say(line, way->find(line));
        else if (sscanf(line, "%199s %d %llu", base, &version, &flags) == 3)
            say_lookup(base, version, flags);
    }
    return 0;
}
