/* The machine file: where it is, whether it is one, and how one is made. */
#include "machine_internal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT_BASE "/run/gpupool"
#define USER_BASE "/tmp/gpupool-%u"
#define MACHINE "simgpu/machine"
#define DEVICES "share/devices"

/* --- where --- */

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

static bool under_base(const char *name, char *path, size_t size)
{
    snprintf(path, size, ROOT_BASE "/%s", name);
    if (there(path))
        return true;
    snprintf(path, size, USER_BASE "/%s", (unsigned)getuid(), name);
    return there(path);
}

static bool find_machine(char *path, size_t size)
{
    const char *named = getenv("GPUPOOL_SIMGPU");
    if (!named || !*named)
        return under_base(MACHINE, path, size);
    return (size_t)snprintf(path, size, "%s", named) < size && there(path);
}

/* Of the job's own base, whatever machine file was named; else beside that file's directory. */
static bool find_devices(const char *machine, char *path, size_t size)
{
    if (under_base(DEVICES, path, size))
        return true;
    const char *end = strrchr(machine, '/');
    if (!end)
        return false;
    snprintf(path, size, "%.*s/../" DEVICES, (int)(end - machine), machine);
    return there(path);
}

/* --- which cards --- */

static void uuid_text(const uint8_t uuid[16], char text[37])
{
    char *at = text;
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid[i]);
}

static bool is_listed(const char *list, const uint8_t uuid[16])
{
    char text[37];
    uuid_text(uuid, text);
    return strcasestr(list, text) != NULL;
}

static char *read_list(const char *path)
{
    enum { MOST = 64 * SIM_CARDS };
    char *text = calloc(1, MOST + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (text && fd >= 0)
        for (ssize_t got, at = 0; at < MOST && (got = read(fd, text + at, (size_t)(MOST - at))) > 0; at += got) {
        }
    if (fd >= 0)
        close(fd);
    return text;
}

/* A list that is there and cannot be read shows no card. */
static void see_cards(struct sim *sim)
{
    char path[512];
    const struct sim_machine *m = sim->machine;
    char *list = find_devices(sim->path, path, sizeof path) ? read_list(path) : NULL;
    bool all = !there(path);
    sim->count = 0;
    for (uint32_t i = 0; i < m->header.cards; i++)
        if (all || (list && is_listed(list, m->card[i].uuid)))
            sim->visible[sim->count++] = (uint16_t)i;
    free(list);
}

/* --- whether --- */

static bool is_machine(const struct sim_header *h)
{
    return h->magic == SIM_MAGIC && h->layout == SIM_LAYOUT && h->size == sizeof(struct sim_machine)
           && h->cards <= SIM_CARDS && h->slice_ns;
}

static int map_machine(struct sim *sim, int fd)
{
    struct stat file;
    if (fstat(fd, &file))
        return -errno;
    if (!S_ISREG(file.st_mode) || (uint64_t)file.st_size < sizeof(struct sim_machine))
        return -EPROTO;
    void *at = mmap(NULL, sizeof(struct sim_machine), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return -errno;
    if (!is_machine(at)) {
        munmap(at, sizeof(struct sim_machine));
        return -EPROTO;
    }
    sim->machine = at;
    return 0;
}

/* Of the file itself, whatever links lead to it: a link beside which there are no limits would undo them. */
static void find_limits_path(struct sim *sim, int fd)
{
    char link[32], real[sizeof sim->path];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, real, sizeof real - 1);
    real[length > 0 ? length : 0] = '\0';
    snprintf(sim->limits_path, sizeof sim->limits_path, "%s.limits", length > 0 ? real : sim->path);
}

int sim_open(struct sim *sim, const char *path)
{
    memset(sim, 0, sizeof *sim);
    if (path)
        snprintf(sim->path, sizeof sim->path, "%s", path);
    else if (!find_machine(sim->path, sizeof sim->path))
        return -ENOENT;
    int fd = open(sim->path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int problem = map_machine(sim, fd);
    find_limits_path(sim, fd);
    close(fd);
    if (!problem)
        see_cards(sim);
    return problem;
}

void sim_close(struct sim *sim)
{
    if (!sim->machine)
        return;
    sim_detach(sim);
    munmap(sim->machine, sizeof(struct sim_machine));
    memset(sim, 0, sizeof *sim);
}

/* --- making one --- */

static void set64(uint64_t *field, uint64_t value)
{
    *field = *field ? *field : value;
}

static void set32(uint32_t *field, uint32_t value)
{
    *field = *field ? *field : value;
}

/* Plausible for a card of the H100's kind where nothing else is said. */
static void fill_card(struct sim_card *card, uint32_t index)
{
    if (!card->name[0])
        snprintf(card->name, sizeof card->name, "gpupool Simulated GPU");
    if (!card->uuid[0])
        memcpy(card->uuid, "\x51\x6d\xa0\x00\x00\x00\x40\x00\x80\x00\x00\x00\x00\x00\x00", 15), card->uuid[15] = (uint8_t)(index + 1);
    set64(&card->memory_bytes, 80ull << 30);
    set64(&card->context_bytes, 512ull << 20);
    set64(&card->granule_bytes, 2ull << 20);
    set64(&card->launch_ns, 2000);
    set64(&card->memory_bandwidth, 3350000000000ull);
    set64(&card->link_bandwidth, 50000000000ull);
    set32(&card->multiprocessors, 132);
    set32(&card->threads_per_multiprocessor, 2048);
    set32(&card->compute_major, 9);
    set32(&card->pci_bus, 1 + index);
    set32(&card->pci_device_id, 0x233010de);
    set32(&card->sm_clock_mhz, 1980);
    set32(&card->memory_clock_mhz, 2619);
    set32(&card->memory_bus_bits, 5120);
    set32(&card->l2_bytes, 50u << 20);
    set32(&card->power_idle_mw, 70000);
    set32(&card->power_limit_mw, 700000);
}

static void read_boot(uint8_t boot[16])
{
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    char *at = fgets(text, sizeof text, file);
    fclose(file);
    for (int i = 0; at && i < 16 && isxdigit((unsigned char)*at); i++) {
        unsigned byte;
        sscanf(at, "%2x", &byte);
        boot[i] = (uint8_t)byte;
        at += at[2] == '-' ? 3 : 2;
    }
}

void sim_format(struct sim_machine *m, const struct sim_card *cards, uint32_t count, uint32_t clock, uint32_t mode)
{
    struct sim_header *h = &m->header;
    h->layout = SIM_LAYOUT;
    h->cards = count < SIM_CARDS ? count : SIM_CARDS;
    h->size = sizeof *m;
    h->clock = clock;
    h->mode = mode;
    h->slice_ns = 2000000;
    h->switch_ns = clock == SIM_CLOCK_VIRTUAL ? 0 : 20000;
    h->cuda_version = 13000;
    h->nvml_version = 13;
    h->wake = 1;
    snprintf(h->driver_version, sizeof h->driver_version, "580.65.06");
    snprintf(h->name, sizeof h->name, "simulated");
    read_boot(h->boot);
    for (uint32_t i = 0; i < h->cards; i++) {
        memcpy(&m->card[i], &cards[i], sizeof m->card[i]);
        fill_card(&m->card[i], i);
        m->card[i].minor = i;
    }
    h->magic = SIM_MAGIC;
}

static int write_machine(int fd, const struct sim_card *cards, uint32_t count, uint32_t clock, uint32_t mode)
{
    if (fchmod(fd, 0666) || ftruncate(fd, sizeof(struct sim_machine)))
        return -errno;
    struct sim_machine *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED)
        return -errno;
    sim_format(m, cards, count, clock, mode);
    munmap(m, sizeof *m);
    return 0;
}

int sim_create(const char *path, const struct sim_card *cards, uint32_t count, uint32_t clock, uint32_t mode)
{
    char temporary[512];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int problem = write_machine(fd, cards, count, clock, mode);
    close(fd);
    if (!problem && rename(temporary, path))
        problem = -errno;
    if (problem)
        unlink(temporary);
    return problem;
}
