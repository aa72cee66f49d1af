/* What the kernel driver's files are asked, as far as this program must understand it: numbers and layouts only.

   Source: the public headers of NVIDIA's open-gpu-kernel-modules (nvos.h, ctrl/ctrla06c.h, ctrl/ctrla06f/ctrla06fgpfifo.h,
   nv_escape.h), 595.45.04. Nothing of it has been checked on hardware by us. An unknown layout is noticed by its size
   (_IOC_SIZE of the request) and is then passed through and counted as not understood. */
#ifndef GUARD_ABI_H
#define GUARD_ABI_H

#include <stdint.h>

/* The driver looks at the low byte of a request alone, so the filter does too. */
enum rm_request {
    RM_ALLOC_MEMORY = 0x27,
    RM_FREE = 0x29,
    RM_CONTROL = 0x2a,
    RM_ALLOC = 0x2b,
    RM_DUP_OBJECT = 0x34,
    RM_VID_HEAP_CONTROL = 0x4a,
    RM_XFER = 211, /* carries any other request: a guard would refuse it */
};

enum rm_class {
    CLASS_ROOT = 0x0,
    CLASS_MEMORY_SYSTEM = 0x3e, /* of the host */
    CLASS_MEMORY_PRIVILEGED = 0x3f,
    CLASS_MEMORY_LOCAL_USER = 0x40,
    CLASS_CHANNEL_GROUP = 0xa06c,
    CLASS_LOW_CHANNEL = 0x6f, /* low byte of every channel class */
    CLASS_LOW_COMPUTE = 0xc0, /* low byte of every compute class */
};

enum rm_control_command {
    CONTROL_GROUP_SCHEDULE = 0xa06c0101,
    CONTROL_GROUP_SET_TIMESLICE = 0xa06c0103,
    CONTROL_GROUP_GET_TIMESLICE = 0xa06c0104,
    CONTROL_RESTART_RUNLIST = 0xa06f0111,
};

struct rm_alloc { /* NVOS64; the older NVOS21 ends after `params` with size and status */
    uint32_t root, parent, object, class_id;
    uint64_t params, rights;
    uint32_t params_size, flags, status, pad;
};

struct rm_alloc_old { /* NVOS21 */
    uint32_t root, parent, object, class_id;
    uint64_t params;
    uint32_t params_size, status;
};

struct rm_free { /* NVOS00 */
    uint32_t root, parent, object, status;
};

struct rm_control { /* NVOS54 */
    uint32_t client, object, command, flags;
    uint64_t params;
    uint32_t params_size, status;
};

#define MEMORY_PARAMS_SIZE_OFFSET 64 /* of `size` (u64) in NV_MEMORY_ALLOCATION_PARAMS */
#define MOST_PARAMS 4096

struct timeslice_params {
    uint64_t microseconds;
};

struct schedule_params {
    uint8_t enable, skip_submit, more[6]; /* its length differs by driver: the tenant's own call tells it */
};

struct restart_params {
    uint8_t force, bypass_wait;
};

_Static_assert(sizeof(struct rm_alloc) == 48, "layout");
_Static_assert(sizeof(struct rm_alloc_old) == 32, "layout");
_Static_assert(sizeof(struct rm_free) == 16, "layout");
_Static_assert(sizeof(struct rm_control) == 32, "layout");

#endif
