/* The cards that this process sees, over the shared model. */
#include "card.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/machine.h"

static struct sim sim;
static const _Atomic uint64_t never_suspended;
const _Atomic uint64_t *_Atomic driver_suspension = &never_suspended;
static _Atomic bool opened;
static bool attached;
static int count;
static struct card {
    uint32_t index; /* in the machine */
    unsigned contexts;
    uint32_t engine;
    struct card_facts facts;
} cards[CARD_LIMIT];
static _Atomic int calls_inside; /* threads in the model without the driver's lock */

struct sim *card_machine(void)
{
    return &sim;
}

int card_count(void)
{
    return count;
}

const struct card_facts *card_facts(int device)
{
    return &cards[device].facts;
}

uint32_t card_index(int device)
{
    return cards[device].index;
}

CUresult card_result(int answer)
{
    switch (answer) {
    case 0:
        return CUDA_SUCCESS;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case -ENOENT:
        return CUDA_ERROR_NO_DEVICE;
    case -ENOSPC:
        return CUDA_ERROR_OUT_OF_MEMORY; /* no slot, no context: what a driver without channels left answers */
    case -EINVAL:
        return CUDA_ERROR_INVALID_HANDLE;
    default:
        return answer > 0 ? (CUresult)answer : CUDA_ERROR_OPERATING_SYSTEM;
    }
}

static void copy_facts(struct card *card, const struct sim_card *from)
{
    struct card_facts *facts = &card->facts;

    snprintf(facts->name, sizeof facts->name, "%.*s", (int)sizeof from->name, from->name);
    memcpy(facts->uuid, from->uuid, sizeof facts->uuid);
    facts->total_bytes = from->memory_bytes - from->reserved_bytes;
    facts->context_bytes = from->context_bytes;
    facts->launch_ns = from->launch_ns;
    facts->memory_bandwidth = from->memory_bandwidth;
    facts->link_bandwidth = from->link_bandwidth;
    facts->sm_count = (int)from->multiprocessors;
    facts->threads_per_sm = (int)from->threads_per_multiprocessor;
    facts->major = (int)from->compute_major;
    facts->minor = (int)from->compute_minor;
    facts->pci_domain = (int)from->pci_domain;
    facts->pci_bus = (int)from->pci_bus;
    facts->pci_device = (int)from->pci_device;
    facts->clock_khz = (int)from->sm_clock_mhz * 1000;
    facts->memory_clock_khz = (int)from->memory_clock_mhz * 1000;
    facts->bus_width_bits = (int)from->memory_bus_bits;
    facts->l2_bytes = (int)from->l2_bytes;
    facts->numa_node = from->numa_node;
}

static bool add_card(uint32_t visible)
{
    uint32_t index = sim.visible[visible];

    for (int at = 0; at < count; ++at)
        if (cards[at].index == index)
            return false;
    cards[count].index = index;
    copy_facts(&cards[count++], &sim.machine->card[index]);
    return true;
}

static void uuid_text(uint32_t visible, char text[48])
{
    const uint8_t *u = sim.machine->card[sim.visible[visible]].uuid;

    snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2],
             u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

/* One word of CUDA_VISIBLE_DEVICES: an index, or the beginning of one card's uuid. -1: names no card. */
static int named_card(const char *word)
{
    char *end, text[48];
    int found = -1;

    if (isdigit((unsigned char)*word)) {
        unsigned long index = strtoul(word, &end, 10);
        return *end || index >= sim.count ? -1 : (int)index;
    }
    for (uint32_t at = 0; *word && at < sim.count; ++at) {
        uuid_text(at, text);
        if (strncasecmp(word, text, strlen(word)))
            continue;
        if (found >= 0)
            return -1;
        found = (int)at;
    }
    return found;
}

/* What comes before the first word that names no card, or one for a second time, is there. */
static void add_listed(const char *list)
{
    char copy[4096], *place = NULL;

    snprintf(copy, sizeof copy, "%s", list);
    for (char *word = strtok_r(copy, ",", &place); word && count < CARD_LIMIT; word = strtok_r(NULL, ",", &place)) {
        word += strspn(word, " ");
        word[strcspn(word, " ")] = 0;
        int card = named_card(word);
        if (card < 0 || !add_card((uint32_t)card))
            return;
    }
}

static int open_machine(void)
{
    if (opened)
        return 0;
    int answer = sim_open(&sim, NULL);
    opened = answer == 0;
    return answer;
}

void card_count_unsupported(void)
{
    if (opened)
        sim_count_unsupported(&sim);
}

int card_driver_version(void)
{
    return open_machine() ? 0 : (int)sim.machine->header.cuda_version;
}

CUresult card_open(void)
{
    const char *listed = getenv("CUDA_VISIBLE_DEVICES");

    int answer = open_machine();
    if (answer)
        return card_result(answer);
    count = 0;
    if (listed)
        add_listed(listed);
    for (uint32_t at = 0; !listed && at < sim.count && count < CARD_LIMIT; ++at)
        add_card(at);
    REQUIRE(count, CUDA_ERROR_NO_DEVICE);
    sim_reap(&sim);
    answer = sim_attach(&sim, 0);
    attached = answer == 0;
    if (attached)
        driver_suspension = &sim.self->suspension;
    return card_result(answer);
}

void driver_pass_gate(void)
{
    sim_pass_gate(&sim);
}

void card_note_sharing(void)
{
    if (sim.self)
        sim.self->flags |= SIM_SHARING;
}

void card_forget(void)
{
    attached = false;
    driver_suspension = &never_suspended;
    sim_forget(&sim);
}

void card_close(void)
{
    driver_suspension = &never_suspended;
    if (attached && !calls_inside)
        sim_detach(&sim);
    attached = false;
}

void card_enter(void)
{
    atomic_fetch_add(&calls_inside, 1);
}

void card_leave(void)
{
    atomic_fetch_sub(&calls_inside, 1);
}

CUresult card_health(int device)
{
    return card_result(sim_card_error(&sim, cards[device].index));
}

CUresult card_context_open(int device, uint32_t *engine_context)
{
    struct card *card = &cards[device];

    if (!card->contexts)
        TRY(card_result(sim_context(&sim, card->index, &card->engine)));
    else
        TRY(card_charge(device, SIM_CONTEXT, card->facts.context_bytes));
    ++card->contexts;
    *engine_context = card->engine;
    return CUDA_SUCCESS;
}

bool card_context_close(int device)
{
    struct card *card = &cards[device];

    if (--card->contexts) {
        card_uncharge(device, SIM_CONTEXT, card->facts.context_bytes);
        return false;
    }
    sim_context_close(&sim, card->index);
    return true;
}

CUresult card_charge(int device, uint32_t kind, uint64_t bytes)
{
    return card_result(sim_charge(&sim, cards[device].index, kind, bytes));
}

void card_uncharge(int device, uint32_t kind, uint64_t bytes)
{
    sim_uncharge(&sim, cards[device].index, kind, bytes);
}

uint64_t card_free_bytes(int device, uint64_t *total)
{
    *total = cards[device].facts.total_bytes;
    return sim_left(&sim, cards[device].index, total);
}
