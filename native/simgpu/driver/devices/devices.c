/* The devices and their names. Attributes are in attributes.c. */
#include "contexts/context.h"

#include <stdio.h>
#include <string.h>

#include "card.h"

CUresult cuDeviceGetCount(int *count)
{
    READY();
    REQUIRE(count, CUDA_ERROR_INVALID_VALUE);
    *count = card_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    READY();
    REQUIRE(device, CUDA_ERROR_INVALID_VALUE);
    DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(name && length > 0, CUDA_ERROR_INVALID_VALUE);
    snprintf(name, (size_t)length, "%s", card_facts(device)->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(uuid, CUDA_ERROR_INVALID_VALUE);
    memcpy(uuid->bytes, card_facts(device)->uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return cuDeviceGetUuid_v2(uuid, device);
}

/* A Windows identifier. */
CUresult cuDeviceGetLuid(char *luid, unsigned int *node_mask, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(luid && node_mask, CUDA_ERROR_INVALID_VALUE);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    *bytes = card_facts(device)->total_bytes;
    return CUDA_SUCCESS;
}

/* What a 32-bit count can say of a larger card. */
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
    size_t total;

    READY();
    REQUIRE(bytes, CUDA_ERROR_INVALID_VALUE);
    TRY(cuDeviceTotalMem_v2(&total, device));
    *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(major && minor, CUDA_ERROR_INVALID_VALUE);
    *major = card_facts(device)->major;
    *minor = card_facts(device)->minor;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(properties, CUDA_ERROR_INVALID_VALUE);
    *properties = (CUdevprop){
        .maxThreadsPerBlock = 1024,
        .maxThreadsDim = {1024, 1024, 64},
        .maxGridSize = {INT32_MAX, 65535, 65535},
        .sharedMemPerBlock = 49152,
        .totalConstantMemory = 65536,
        .SIMDWidth = 32,
        .memPitch = INT32_MAX,
        .regsPerBlock = 65536,
        .clockRate = card_facts(device)->clock_khz,
        .textureAlign = 512,
    };
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice device)
{
    READY();
    DEVICE(device);
    REQUIRE(id && length > 0, CUDA_ERROR_INVALID_VALUE);
    const struct card_facts *facts = card_facts(device);
    int needed = snprintf(id, (size_t)length, "%04X:%02X:%02X.0", (unsigned)facts->pci_domain,
                          (unsigned)facts->pci_bus, (unsigned)facts->pci_device);
    return needed < length ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_at(const struct card_facts *facts, unsigned domain, unsigned bus, unsigned slot)
{
    return facts->pci_domain == (int)domain && facts->pci_bus == (int)bus && facts->pci_device == (int)slot;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    unsigned domain = 0, bus, slot, function = 0;

    READY();
    REQUIRE(device && id, CUDA_ERROR_INVALID_VALUE);
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        REQUIRE(sscanf(id, "%x:%x.%x", &bus, &slot, &function) >= 2, CUDA_ERROR_INVALID_VALUE);
    }
    for (int at = 0; at < card_count(); ++at) {
        if (is_at(card_facts(at), domain, bus, slot)) {
            *device = at;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    READY();
    REQUIRE(can, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    DEVICE(peer);
    *can = device != peer;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source, CUdevice destination)
{
    READY();
    REQUIRE(value, CUDA_ERROR_INVALID_VALUE);
    DEVICE(source);
    DEVICE(destination);
    REQUIRE(source != destination, CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice device)
{
    READY();
    REQUIRE(supported && type == CU_EXEC_AFFINITY_TYPE_SM_COUNT, CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    *supported = 0;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *width, CUarray_format format, unsigned channels, CUdevice device)
{
    (void)format;
    READY();
    REQUIRE(width && (channels == 1 || channels == 2 || channels == 4), CUDA_ERROR_INVALID_VALUE);
    DEVICE(device);
    *width = (size_t)1 << 28;
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope)
{
    (void)target, (void)scope;
    READY();
    CURRENT(context);
    return CUDA_SUCCESS;
}
