/* What the simulated libnvidia-ml.so.1's files share. Facts of the interface from the vendor's public nvml.h.

   The library only looks: it takes no slot on the machine, and the machine's lock just for as long as it reads. */
#ifndef GPUPOOL_SIM_NVML_H
#define GPUPOOL_SIM_NVML_H

#include <gpupool/nvml_all.h>

#include "machine/machine.h"

#include <stdbool.h>

/* The machine, or NULL before nvmlInit and after the last nvmlShutdown. */
struct sim *nvml_sim(void);

/* The card that a handle means: NVML_ERROR_UNINITIALIZED, _INVALID_ARGUMENT, _GPU_IS_LOST. `nvml_card_lost`: also lost ones. */
nvmlReturn_t nvml_card(nvmlDevice_t device, const struct sim_card **card);
nvmlReturn_t nvml_card_lost(nvmlDevice_t device, const struct sim_card **card);
uint32_t nvml_index(const struct sim_card *card); /* in the machine */
/* The handle of a card that this process may see, by its place among those. */
nvmlReturn_t nvml_handle(uint32_t place, nvmlDevice_t *device);
nvmlDevice_t nvml_handle_of(const struct sim_card *card);

nvmlReturn_t nvml_text(char *to, unsigned int length, const char *text);
void nvml_pci_text(const struct sim_card *card, char text[NVML_DEVICE_PCI_BUS_ID_BUFFER_SIZE]);
void nvml_uuid_text(const struct sim_card *card, char text[41]);

/* Percent of a second in which a kernel ran, with NVML's distortions: whole percents, renewed each 200 ms, 200 to 400 ms late.
   `context`: of one context only, ENGINE_CONTEXTS for the card. */
unsigned int nvml_percent(uint32_t card, uint32_t context);

/* A function without behaviour was called: counted, NVML_ERROR_NOT_SUPPORTED. */
nvmlReturn_t nvml_unsupported(void);

#define CARD(device, card)                          \
    const struct sim_card *card;                    \
    do {                                            \
        nvmlReturn_t answer = nvml_card(device, &card); \
        if (answer != NVML_SUCCESS)                 \
            return answer;                          \
    } while (0)

#define NEED(condition)                              \
    do {                                             \
        if (!(condition))                            \
            return NVML_ERROR_INVALID_ARGUMENT;      \
    } while (0)

#define NEED_VERSION(struct_, wanted)                       \
    do {                                                    \
        NEED(struct_);                                      \
        if ((struct_)->version != (wanted))                 \
            return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;    \
    } while (0)

#endif
