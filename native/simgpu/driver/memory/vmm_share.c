/* Physical allocations by address and by descriptor, in this process and in others. */
#include "vmm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/card.h"
#include "memory.h"

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
    LOCKED();
    REQUIRE(handle, CUDA_ERROR_INVALID_VALUE);
    struct physical *physical = physical_at(address);
    REQUIRE(physical, CUDA_ERROR_INVALID_VALUE);
    ++physical->references;
    ++physical->handles;
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
    LOCKED();
    struct physical *physical = physical_of(handle);
    REQUIRE(prop && physical, CUDA_ERROR_INVALID_VALUE);
    *prop = physical->properties;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    LOCKED();
    struct physical *physical = physical_of(handle);
    REQUIRE(out && physical && !flags, CUDA_ERROR_INVALID_VALUE);
    REQUIRE(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE(physical->properties.requestedHandleTypes & type, CUDA_ERROR_INVALID_VALUE);
    int file = fcntl(physical->file, F_DUPFD_CLOEXEC, 0);
    REQUIRE(file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    *(int *)out = file;
    card_note_sharing();
    return CUDA_SUCCESS;
}

/* The exporter is charged. The same file imported twice in a process is one allocation. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle,
                                        CUmemAllocationHandleType type)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = context_top() ? context_top()->device : 0},
    };
    struct stat facts;

    LOCKED();
    REQUIRE(handle && type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CUDA_ERROR_INVALID_VALUE);
    int given = (int)(intptr_t)os_handle;
    REQUIRE(fstat(given, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size % (off_t)GRANULE == 0,
            CUDA_ERROR_INVALID_VALUE);
    struct physical *known = physical_of_file(facts.st_dev, facts.st_ino);
    if (known) {
        ++known->references;
        ++known->handles;
        *handle = (uintptr_t)known;
        return CUDA_SUCCESS;
    }
    int file = fcntl(given, F_DUPFD_CLOEXEC, 0);
    REQUIRE(file >= 0, CUDA_ERROR_OPERATING_SYSTEM);
    struct physical *physical = physical_new(file, (size_t)facts.st_size, &prop);
    if (!physical) {
        close(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->imported = true;
    card_note_sharing();
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}
