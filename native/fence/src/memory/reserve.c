#include "reserve.h"

#include "account.h"
#include "graph_memory.h"
#include "pools.h"
#include "process/state.h"

bool reserve_memory(int card, uint64_t bytes)
{
    if (!fence_ready())
        return false;
    if (account_try(card, bytes))
        return true;
    if (account_clear_dead() && account_try(card, bytes))
        return true;
    bool gave = pools_trim(card);
    gave |= graph_memory_trim(card);
    if (gave && account_try(card, bytes))
        return true;
    account_count_refusal(card);
    return false;
}
