/* Memory of other processes, opened by IPC. The exporter is charged for it; here it is only counted as imported. */
#include "imports.h"
#include "account.h"
#include "charge.h"
#include "process/cards.h"
#include "process/real.h"
#include "process/reentry.h"
#include "process/state.h"

static size_t size_at(CUdeviceptr pointer)
{
    CUdeviceptr start;
    size_t size = 0;
    return fence_real.cuMemGetAddressRange_v2(&start, &size, pointer) == CUDA_SUCCESS ? size : 0;
}

void imports_freed(CUdeviceptr pointer, CUresult result)
{
    struct handle handle;
    if (result != CUDA_SUCCESS || !charge_take(HANDLE_IMPORT, pointer, &handle))
        return;
    account_unimport(handle.card, handle.bytes);
    account_open_imports(-1);
}

static bool begin(void)
{
    bool counted = fence_ready() != NULL;
    if (counted)
        account_open_imports(1);
    return counted;
}

static CUresult forget(bool counted, CUresult result)
{
    if (counted)
        account_open_imports(-1);
    return result;
}

/* A handle that is opened again gives the same pointer and counts. */
static CUresult opened(bool counted, CUresult result, const CUdeviceptr *pointer)
{
    struct handle handle;
    int card = result == CUDA_SUCCESS && counted ? card_of_current() : CARD_NONE;
    if (card < 0)
        return forget(counted, result);
    if (handles_take(HANDLE_IMPORT, *pointer, &handle)) {
        account_open_imports(-1);
    } else {
        handle = (struct handle){.key = *pointer, .kind = HANDLE_IMPORT, .card = card, .bytes = size_at(*pointer)};
        account_import(card, handle.bytes);
    }
    handle.count++;
    handles_add(&handle);
    return result;
}

CUresult fence_cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle from, unsigned int flags)
{
    if (!fence_enter())
        return fence_real.cuIpcOpenMemHandle(pointer, from, flags);
    bool counted = begin();
    return fence_leave(opened(counted, fence_real.cuIpcOpenMemHandle(pointer, from, flags), pointer));
}

CUresult fence_cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle from, unsigned int flags)
{
    if (!fence_enter())
        return fence_real.cuIpcOpenMemHandle_v2(pointer, from, flags);
    bool counted = begin();
    return fence_leave(opened(counted, fence_real.cuIpcOpenMemHandle_v2(pointer, from, flags), pointer));
}

CUresult fence_cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    struct handle handle;
    if (!fence_enter())
        return fence_real.cuIpcCloseMemHandle(pointer);
    bool known = charge_take(HANDLE_IMPORT, pointer, &handle);
    CUresult result = fence_real.cuIpcCloseMemHandle(pointer);
    bool last = known && result == CUDA_SUCCESS && --handle.count == 0;
    if (last) {
        account_unimport(handle.card, handle.bytes);
        account_open_imports(-1);
    } else if (known) {
        handles_add(&handle);
    }
    return fence_leave(result);
}

/* Closed by cuMemFreeAsync or cuMemFree. */
CUresult fence_cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *from)
{
    if (!fence_enter())
        return fence_real.cuMemPoolImportPointer(pointer, pool, from);
    bool counted = begin();
    return fence_leave(opened(counted, fence_real.cuMemPoolImportPointer(pointer, pool, from), pointer));
}
