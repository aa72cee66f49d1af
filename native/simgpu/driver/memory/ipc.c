/* CUDA IPC for memory and events. A handle names the descriptor of an anonymous shared file in the exporting process,
   which the importer opens through /proc. Memory gets its file when it is exported first; the exporter is charged. */
#include "contexts/context.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "copies/transfer.h"
#include "devices/card.h"
#include "graphs/capture.h"
#include "memory.h"
#include "streams/stream.h"

#define MEMORY_HANDLE 0x6d656d6f63706967ull
#define EVENT_HANDLE 0x746e766563706967ull
#define PAGE 4096u

struct named_file {
    uint64_t magic, size, file_device, file_number;
    int32_t pid, file;
    unsigned char uuid[16];
    uint64_t reserved;
};
_Static_assert(sizeof(struct named_file) == sizeof(CUipcMemHandle), "a handle is 64 bytes");

static bool name_file(struct named_file *named, uint64_t magic, int file, uint64_t size, int device)
{
    struct stat facts;

    if (fstat(file, &facts))
        return false;
    *named = (struct named_file){magic, size, facts.st_dev, facts.st_ino, getpid(), file, {0}, 0};
    memcpy(named->uuid, card_facts(device)->uuid, sizeof named->uuid);
    return true;
}

/* -1: the exporter is gone, has freed it, or is not ours to look at. */
static int open_named(const struct named_file *named)
{
    struct stat facts;
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", named->pid, named->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (fstat(file, &facts) || facts.st_dev != named->file_device || facts.st_ino != named->file_number) {
        close(file);
        return -1;
    }
    return file;
}

static int device_named(const struct named_file *named)
{
    int device = 0;

    while (device < card_count() && memcmp(card_facts(device)->uuid, named->uuid, sizeof named->uuid))
        ++device;
    return device < card_count() ? device : -1;
}

/* Pages that were never written are neither read nor made. */
static bool write_pages(int file, const char *start, size_t size)
{
    unsigned char resident;

    for (size_t at = 0; at < size; at += PAGE) {
        if (mincore((void *)(start + at), PAGE, &resident) || !(resident & 1))
            continue;
        if (pwrite(file, start + at, PAGE, (off_t)at) != PAGE)
            return false;
    }
    return true;
}

/* Puts a shared file under the same address, with the same bytes. Data is not moved meanwhile. */
static CUresult share(struct block *block)
{
    int file = memfd_create("gpupool-simgpu-ipc", MFD_CLOEXEC);

    REQUIRE(file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    data_lock_exclusive();
    bool shared = ftruncate(file, (off_t)block->mapped) == 0 && write_pages(file, block->start, block->mapped) &&
                  mmap(block->start, block->mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                       file, 0) != MAP_FAILED;
    data_unlock();
    if (!shared) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    block->shared_file = file;
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    LOCKED();
    REQUIRE(handle, CUDA_ERROR_INVALID_VALUE);
    struct block *block = block_at((void *)pointer);
    REQUIRE(block && block->kind == BLOCK_DEVICE, CUDA_ERROR_INVALID_VALUE);
    if (block->shared_file < 0)
        TRY(share(block));
    bool named = name_file((struct named_file *)handle, MEMORY_HANDLE, block->shared_file, block->size, block->device);
    card_note_sharing();
    return named ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

static struct block *imported(const struct named_file *named)
{
    size_t at = 0;

    for (struct block *block; (block = block_next(&at));)
        if (block->kind == BLOCK_IMPORTED && block->origin[0] == named->file_device &&
            block->origin[1] == named->file_number)
            return block;
    return NULL;
}

static CUresult map_named(const struct named_file *named, CUcontext context, CUdeviceptr *pointer)
{
    size_t length = pages_round(named->size);
    int file = open_named(named);

    REQUIRE(file >= 0, CUDA_ERROR_INVALID_HANDLE);
    card_note_sharing();
    char *start = pages_map(length, GRANULE, 0);
    if (!start || mmap(start, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file, 0) ==
                      MAP_FAILED) {
        if (start)
            pages_unmap(start, length);
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct block like = {
        .start = start, .size = named->size, .mapped = length, .kind = BLOCK_IMPORTED,
        .device = device_named(named), .context = context, .shared_file = file, .opened = 1,
        .origin = {named->file_device, named->file_number},
    };
    if (!block_insert(&like)) {
        pages_unmap(start, length);
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pointer = (CUdeviceptr)start;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    const struct named_file *named = (const struct named_file *)&handle;

    LOCKED();
    REQUIRE(pointer && !(flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS), CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    REQUIRE(named->magic == MEMORY_HANDLE && named->size && named->size <= MEMORY_MAX, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(named->pid != getpid(), CUDA_ERROR_INVALID_CONTEXT);
    REQUIRE(device_named(named) >= 0, CUDA_ERROR_INVALID_DEVICE);
    struct block *known = imported(named);
    if (known) {
        ++known->opened;
        *pointer = (CUdeviceptr)known->start;
        return CUDA_SUCCESS;
    }
    return map_named(named, context, pointer);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(pointer, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    LOCKED();
    struct block *block = block_exact((void *)pointer);
    REQUIRE(block && block->kind == BLOCK_IMPORTED, CUDA_ERROR_INVALID_VALUE);
    if (!--block->opened)
        block_remove(block);
    return CUDA_SUCCESS;
}

/* --- events: a page that says which piece of work was recorded last --- */

struct shared_page {
    _Atomic uint32_t recorded, writing; /* writing: odd while the ticket changes */
    struct engine_ticket ticket;
};

struct shared_event {
    struct shared_page *page;
    int file;
};

static bool map_page(CUevent event, int file)
{
    struct shared_event *shared = malloc(sizeof *shared);
    void *page = shared ? mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;

    if (page == MAP_FAILED) {
        free(shared);
        return false;
    }
    *shared = (struct shared_event){page, file};
    event->shared = shared;
    return true;
}

bool shared_event_create(CUevent event)
{
    int file = memfd_create("gpupool-simgpu-event", MFD_CLOEXEC);

    if (file >= 0 && ftruncate(file, PAGE) == 0 && map_page(event, file))
        return true;
    if (file >= 0)
        close(file);
    return false;
}

void shared_event_publish(CUevent event)
{
    if (!event->shared)
        return;
    struct shared_page *page = event->shared->page;
    atomic_fetch_add(&page->writing, 1);
    page->ticket = event->ticket;
    atomic_fetch_add(&page->writing, 1);
    page->recorded = 1;
}

void shared_event_read(CUevent event)
{
    uint32_t before;

    if (!event->shared || !event->shared->page->recorded)
        return;
    struct shared_page *page = event->shared->page;
    /* A writer that was killed in between leaves it odd: what is there is then the best there is. */
    for (int tries = 0; tries < 1000; ++tries) {
        before = page->writing;
        event->ticket = page->ticket;
        if (!(before & 1) && before == page->writing)
            break;
    }
    event->recorded = true;
}

void shared_event_close(CUevent event)
{
    if (!event->shared)
        return;
    munmap(event->shared->page, PAGE);
    close(event->shared->file);
    free(event->shared);
    event->shared = NULL;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    LOCKED();
    REQUIRE(handle, CUDA_ERROR_INVALID_VALUE);
    TRY(event_resolve(event));
    REQUIRE(event->shared, CUDA_ERROR_INVALID_HANDLE);
    bool named = name_file((struct named_file *)handle, EVENT_HANDLE, event->shared->file, PAGE,
                           event->context->device);
    return named ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    const struct named_file *named = (const struct named_file *)&handle;

    LOCKED();
    REQUIRE(out && named->magic == EVENT_HANDLE, CUDA_ERROR_INVALID_VALUE);
    CURRENT(context);
    int file = open_named(named);
    REQUIRE(file >= 0, CUDA_ERROR_INVALID_HANDLE);
    CUevent event = event_open(context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (!event || !map_page(event, file)) {
        if (event)
            handle_free(event);
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = event;
    return CUDA_SUCCESS;
}
