/* Which cards are here, and what they are. */
#include "nvml_sim.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Handles are addresses in here, so that whatever else is given is recognised; they outlive a shutdown, as programs expect. */
static char handles[SIM_CARDS];

nvmlDevice_t nvml_handle_of(const struct sim_card *card)
{
    return (nvmlDevice_t)(void *)&handles[nvml_index(card)];
}

uint32_t nvml_index(const struct sim_card *card)
{
    return (uint32_t)(card - nvml_sim()->machine->card);
}

static bool is_visible(const struct sim *sim, uintptr_t index)
{
    for (uint32_t i = 0; i < sim->count; i++)
        if (sim->visible[i] == index)
            return true;
    return false;
}

nvmlReturn_t nvml_card_lost(nvmlDevice_t device, const struct sim_card **card)
{
    struct sim *sim = nvml_sim();
    uintptr_t index = (uintptr_t)device - (uintptr_t)handles;
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(is_visible(sim, index));
    *card = &sim->machine->card[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvml_card(nvmlDevice_t device, const struct sim_card **card)
{
    nvmlReturn_t answer = nvml_card_lost(device, card);
    return answer == NVML_SUCCESS && (*card)->lost ? NVML_ERROR_GPU_IS_LOST : answer;
}

/* --- handles --- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(count);
    *count = sim->count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvml_handle(uint32_t place, nvmlDevice_t *device)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(device && place < sim->count);
    const struct sim_card *card = &sim->machine->card[sim->visible[place]];
    *device = nvml_handle_of(card);
    return card->lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    return nvml_handle(index, device);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvml_handle(index, device);
}

static nvmlReturn_t find(bool (*is_it)(const struct sim_card *, const void *), const void *what, nvmlDevice_t *device)
{
    struct sim *sim = nvml_sim();
    if (!sim)
        return NVML_ERROR_UNINITIALIZED;
    NEED(what && device);
    for (uint32_t i = 0; i < sim->count; i++)
        if (is_it(&sim->machine->card[sim->visible[i]], what))
            return nvml_handle(i, device);
    return NVML_ERROR_NOT_FOUND;
}

static bool has_uuid(const struct sim_card *card, const void *text)
{
    char own[41];
    nvml_uuid_text(card, own);
    return strcasecmp(own, text) == 0;
}

static bool has_uuid_bytes(const struct sim_card *card, const void *bytes)
{
    return memcmp(card->uuid, bytes, sizeof card->uuid) == 0;
}

/* `00000000:17:00.0`, `0000:17:00.0` or `17:00.0`; a function beyond 0 is none of a card's. */
static bool has_bus_id(const struct sim_card *card, const void *text)
{
    unsigned int domain = 0, bus, device, function = 0;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
        domain = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &device, &function) < 2)
            return false;
    }
    return domain == card->pci_domain && bus == card->pci_bus && device == card->pci_device && !function;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    return find(has_uuid, uuid, device);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_t *uuid, nvmlDevice_t *device)
{
    NEED_VERSION(uuid, nvmlUUID_v1);
    if (uuid->type == NVML_UUID_TYPE_ASCII)
        return find(has_uuid, uuid->value.str, device);
    return uuid->type == NVML_UUID_TYPE_BINARY ? find(has_uuid_bytes, uuid->value.bytes, device)
                                               : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
    return find(has_bus_id, id, device);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
    return find(has_bus_id, id, device);
}

/* --- names and numbers --- */

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    CARD(device, card);
    NEED(index);
    const struct sim *sim = nvml_sim();
    for (*index = 0; sim->visible[*index] != nvml_index(card);)
        ++*index;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    CARD(device, card);
    return nvml_text(name, length, card->name);
}

void nvml_uuid_text(const struct sim_card *card, char text[41])
{
    char *at = text + sprintf(text, "GPU");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", card->uuid[i]);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    char text[41];
    CARD(device, card);
    nvml_uuid_text(card, text);
    return nvml_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    CARD(device, card);
    NEED(minor);
    *minor = card->minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type)
{
    CARD(device, card);
    NEED(type);
    *type = strstr(card->name, "GeForce") ? NVML_BRAND_GEFORCE : strstr(card->name, "Tesla") ? NVML_BRAND_TESLA
                                                                                             : NVML_BRAND_NVIDIA;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    CARD(device, card);
    NEED(major && minor);
    *major = (int)card->compute_major;
    *minor = (int)card->compute_minor;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, nvmlDeviceArchitecture_t *arch)
{
    CARD(device, card);
    NEED(arch);
    switch (card->compute_major * 10 + card->compute_minor) {
    case 60: case 61: case 62: *arch = NVML_DEVICE_ARCH_PASCAL; break;
    case 70: case 72: *arch = NVML_DEVICE_ARCH_VOLTA; break;
    case 75: *arch = NVML_DEVICE_ARCH_TURING; break;
    case 80: case 86: case 87: *arch = NVML_DEVICE_ARCH_AMPERE; break;
    case 89: *arch = NVML_DEVICE_ARCH_ADA; break;
    case 90: *arch = NVML_DEVICE_ARCH_HOPPER; break;
    default: *arch = card->compute_major >= 10 ? NVML_DEVICE_ARCH_BLACKWELL : NVML_DEVICE_ARCH_UNKNOWN;
    }
    return NVML_SUCCESS;
}

/* FP32 lanes per multiprocessor, CUDA C++ programming guide: 64 on 6.0, 7.x and 8.0, else 128. */
nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
    CARD(device, card);
    NEED(cores);
    uint32_t capability = card->compute_major * 10 + card->compute_minor;
    bool narrow = capability == 60 || card->compute_major == 7 || capability == 80;
    *cores = card->multiprocessors * (narrow ? 64 : 128);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *several)
{
    CARD(device, card);
    (void)card;
    NEED(several);
    *several = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
    CARD(device, card);
    NEED(node);
    if (card->numa_node < 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *node = (unsigned int)card->numa_node;
    return NVML_SUCCESS;
}

/* --- PCI --- */

void nvml_pci_text(const struct sim_card *card, char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE])
{
    snprintf(text, NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE, "%08X:%02X:%02X.0", card->pci_domain, card->pci_bus & 0xff,
             card->pci_device & 0xff);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    CARD(device, card);
    NEED(pci);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", card->pci_domain & 0xffff,
             card->pci_bus & 0xff, card->pci_device & 0xff);
    nvml_pci_text(card, pci->busId);
    pci->domain = card->pci_domain;
    pci->bus = card->pci_bus;
    pci->device = card->pci_device;
    pci->pciDeviceId = card->pci_device_id;
    pci->pciSubSystemId = card->pci_device_id;
    return NVML_SUCCESS;
}

/* The older forms' structure ends before busId, _v1 also before pciSubSystemId. */
static nvmlReturn_t older_pci(nvmlDevice_t device, nvmlPciInfo_t *pci, size_t size)
{
    nvmlPciInfo_t whole;
    NEED(pci);
    nvmlReturn_t answer = nvmlDeviceGetPciInfo_v3(device, &whole);
    if (answer == NVML_SUCCESS)
        memcpy(pci, &whole, size);
    return answer;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return older_pci(device, pci, offsetof(nvmlPciInfo_t, busId));
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    return older_pci(device, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
    CARD(device, card);
    NEED_VERSION(pci, nvmlPciInfoExt_v1);
    pci->domain = card->pci_domain;
    pci->bus = card->pci_bus;
    pci->device = card->pci_device;
    pci->pciDeviceId = pci->pciSubSystemId = card->pci_device_id;
    pci->baseClass = 3; /* display, 3D: PCI code and id assignment */
    pci->subClass = 2;
    nvml_pci_text(card, pci->busId);
    return NVML_SUCCESS;
}

/* --- how two cards are joined: as far as the machine says, by NUMA node --- */

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, nvmlGpuTopologyLevel_t *level)
{
    CARD(one, first);
    CARD(two, second);
    NEED(level && one != two);
    *level = first->numa_node == second->numa_node ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t one, nvmlDevice_t two, int *same)
{
    CARD(one, first);
    CARD(two, second);
    NEED(same);
    *same = first == second;
    return NVML_SUCCESS;
}
