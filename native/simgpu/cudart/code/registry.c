#include "registry.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "runtime.h"

/* The wrapper the compiler puts around a fat binary; layout and magic number as in fatbinary_section.h. */
struct wrapper {
    int magic, version;
    const void *data;
    void *more;
};
enum { WRAPPER_MAGIC = 0x466243b1 };

struct binary {
    const void *image;
    CUlibrary library;
    pthread_mutex_t loading;
    struct entry *entries; /* newest first, by `sibling` */
};

struct entry {
    struct entry *next, *sibling;
    const void *host;
    struct binary *binary; /* NULL: `host` is itself a handle */
    const char *name;
    size_t bytes;
    enum entry_kind kind;
    CUkernel kernel;
    const void *stands_for; /* of a handle: the host address it was got by, if any */
};

/* Both tables chain entries by address; programs like PyTorch register tens of thousands. */
static struct entry **buckets;
static size_t bucket_count, entry_count;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static size_t bucket_of(const void *address, size_t count) {
    return (size_t)(((uintptr_t)address >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (count - 1);
}

static void push(struct entry **table, size_t count, struct entry *e) {
    struct entry **bucket = &table[bucket_of(e->host, count)];
    e->next = *bucket;
    *bucket = e;
}

/* Oldest first, so that the newest of two entries for one address stays in front. */
static void move_chain(struct entry *chain, struct entry **table, size_t count) {
    if (!chain)
        return;
    move_chain(chain->next, table, count);
    push(table, count, chain);
}

static void grow_locked(void) {
    size_t count = bucket_count ? bucket_count * 2 : 1024;
    struct entry **table = calloc(count, sizeof *table);
    if (!table) {
        if (!bucket_count)
            abort(); /* before main, without room for one table: nothing that follows could be right */
        return;
    }
    for (size_t i = 0; i < bucket_count; i++)
        move_chain(buckets[i], table, count);
    free(buckets);
    buckets = table;
    bucket_count = count;
}

static void add_locked(struct entry *e) {
    if (entry_count >= bucket_count)
        grow_locked();
    push(buckets, bucket_count, e);
    entry_count++;
}

static struct entry *find_locked(const void *host) {
    if (!bucket_count)
        return NULL;
    for (struct entry *e = buckets[bucket_of(host, bucket_count)]; e; e = e->next)
        if (e->host == host)
            return e;
    return NULL;
}

static struct entry *find(const void *host) {
    pthread_rwlock_rdlock(&lock);
    struct entry *e = find_locked(host);
    pthread_rwlock_unlock(&lock);
    return e;
}

static void unlink_locked(struct entry *gone) {
    struct entry **p = &buckets[bucket_of(gone->host, bucket_count)];
    while (*p != gone)
        p = &(*p)->next;
    *p = gone->next;
    entry_count--;
}

struct binary *cudart_binary_new(const void *wrapper) {
    struct binary *binary = calloc(1, sizeof *binary);
    if (!binary)
        abort();
    const struct wrapper *w = wrapper;
    binary->image = w->magic == WRAPPER_MAGIC ? w->data : wrapper;
    pthread_mutex_init(&binary->loading, NULL);
    return binary;
}

void cudart_entry_add(struct binary *binary, enum entry_kind kind, const void *host, const char *name, size_t bytes) {
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    *e = (struct entry){.host = host, .binary = binary, .name = name, .bytes = bytes, .kind = kind};
    pthread_rwlock_wrlock(&lock);
    e->sibling = binary->entries;
    binary->entries = e;
    add_locked(e);
    pthread_rwlock_unlock(&lock);
}

void cudart_handle_add(const void *handle) {
    pthread_rwlock_wrlock(&lock);
    if (!find_locked(handle)) {
        struct entry *e = calloc(1, sizeof *e);
        if (e) {
            e->host = handle;
            e->kernel = (CUkernel)(uintptr_t)handle;
            add_locked(e);
        }
    }
    pthread_rwlock_unlock(&lock);
}

/* At the end of the process the driver may have gone first, and takes its libraries along. */
void cudart_binary_delete(struct binary *binary) {
    pthread_rwlock_wrlock(&lock);
    for (struct entry *e = binary->entries, *following; e; e = following) {
        following = e->sibling;
        struct entry *handle = e->kernel ? find_locked(e->kernel) : NULL;
        if (handle) {
            unlink_locked(handle);
            free(handle);
        }
        unlink_locked(e);
        free(e);
    }
    pthread_rwlock_unlock(&lock);
    if (binary->library && !cudart_leaving())
        (void)DRIVER(cuLibraryUnload)(binary->library);
    pthread_mutex_destroy(&binary->loading);
    free(binary);
}

static int load(struct binary *binary, CUlibrary *library) {
    pthread_mutex_lock(&binary->loading);
    int result = 0;
    if (!binary->library)
        result = DRIVER(cuLibraryLoadData)(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    *library = binary->library;
    pthread_mutex_unlock(&binary->loading);
    return result;
}

/* The handle leads back to the host address (cudaGraphKernelNodeGetParams) and may be launched in its place. */
static void remember_handle(struct entry *kernel_entry, CUkernel kernel) {
    cudart_handle_add(kernel);
    pthread_rwlock_wrlock(&lock);
    struct entry *handle = find_locked(kernel);
    if (handle && !handle->binary)
        handle->stands_for = kernel_entry->host;
    __atomic_store_n(&kernel_entry->kernel, kernel, __ATOMIC_RELEASE);
    pthread_rwlock_unlock(&lock);
}

int cudart_kernel(const void *host, CUkernel *kernel) {
    struct entry *e = host ? find(host) : NULL;
    if (!e || e->kind != KERNEL_ENTRY)
        return cudaErrorInvalidDeviceFunction;
    *kernel = __atomic_load_n(&e->kernel, __ATOMIC_ACQUIRE);
    if (*kernel)
        return 0;
    CUlibrary library;
    int result = load(e->binary, &library);
    if (!result)
        result = DRIVER(cuLibraryGetKernel)(kernel, library, e->name);
    if (!result)
        remember_handle(e, *kernel);
    return result == CUDA_ERROR_NOT_FOUND ? (int)cudaErrorInvalidDeviceFunction : result;
}

const void *cudart_kernel_host(CUkernel kernel) {
    struct entry *e = find(kernel);
    return e && e->stands_for ? e->stands_for : (const void *)kernel;
}

static int address_of(struct entry *e, CUdeviceptr *address, size_t *bytes) {
    CUlibrary library;
    int result = load(e->binary, &library);
    if (result)
        return result;
    if (e->kind != VARIABLE_ENTRY)
        return DRIVER(cuLibraryGetManaged)(address, bytes, library, e->name);
    return DRIVER(cuLibraryGetGlobal)(address, bytes, library, e->name);
}

int cudart_variable(const void *host, CUdeviceptr *address, size_t *bytes) {
    struct entry *e = host ? find(host) : NULL;
    if (!e || !e->binary || e->kind == KERNEL_ENTRY)
        return cudaErrorInvalidSymbol;
    size_t loaded_bytes;
    int result = address_of(e, address, &loaded_bytes);
    *bytes = e->bytes;
    return result == CUDA_ERROR_NOT_FOUND ? (int)cudaErrorInvalidSymbol : result;
}

/* For a managed variable the host address is that of a pointer which the compiled code follows. */
int cudart_managed_ready(struct binary *binary) {
    int result = 0;
    for (struct entry *e = binary->entries; e && !result; e = e->sibling) {
        CUdeviceptr address;
        size_t bytes;
        if (e->kind != MANAGED_ENTRY)
            continue;
        result = address_of(e, &address, &bytes);
        if (result)
            continue;
        *(void **)(uintptr_t)e->host = (void *)address;
        if (!find((void *)address))
            cudart_entry_add(binary, MANAGED_ALIAS, (void *)address, e->name, e->bytes);
    }
    return result;
}
