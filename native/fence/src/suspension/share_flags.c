#include "share_flags.h"

static const _Atomic uint32_t no_share;
const _Atomic uint32_t *_Atomic share_flags = &no_share;
