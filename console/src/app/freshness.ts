// Which answers an event of the pool makes outdated.
import type { QueryClient } from '@tanstack/react-query'
import { listenToEvents } from '../live/live'
import type { PoolEvent } from '../live/messages'

/** First words of the kinds of event, and the first words of the keys that they outdate. */
const KEYS_BY_KIND: Record<string, readonly string[]> = {
  job: ['jobs', 'job', 'queue', 'overview', 'capacity', 'map', 'services'],
  array: ['jobs', 'job', 'queue', 'overview'],
  gang: ['jobs', 'job', 'queue', 'overview'],
  device: ['map', 'devices', 'nodes', 'capacity', 'overview', 'health'],
  fault: ['health'],
  idle: ['idle', 'job'],
  schedule: ['schedules'],
  service: ['services'],
  node: ['map', 'devices', 'nodes', 'capacity', 'overview', 'health'],
  quota: ['quotas', 'session', 'overview'],
  tenant: ['quotas', 'session', 'tenants', 'people'],
  reservation: ['queue', 'reservations', 'map'],
  user: ['people', 'session'],
  token: ['people'],
  session: ['people', 'session'],
  budget: ['budgets', 'overview'],
  price: ['prices', 'budgets', 'report'],
  network: ['networks'],
}
/** Events come in bursts; the pages ask again once for all of a burst. */
const BURST_MS = 400

/** Keys that an event outdates; unknown kinds outdate all. */
export function findOutdatedKeys(event: Pick<PoolEvent, 'kind'>): readonly string[] | null {
  return KEYS_BY_KIND[event.kind.split('.')[0] ?? ''] ?? null
}

/** Mark answers as outdated when events say so, until the returned function is called. */
export function keepFresh(queries: QueryClient): () => void {
  let outdated = new Set<string>()
  let all = false
  let timer: ReturnType<typeof setTimeout> | undefined
  const flush = () => {
    timer = undefined
    const keys = outdated
    const everything = all
    outdated = new Set()
    all = false
    void queries.invalidateQueries({
      predicate: (query) => everything || keys.has(String(query.queryKey[0])),
    })
  }
  const unsubscribe = listenToEvents((event) => {
    const keys = event === null ? null : findOutdatedKeys(event)
    if (keys === null) all = true
    for (const key of keys ?? []) outdated.add(key)
    timer ??= setTimeout(flush, BURST_MS)
  })
  return () => {
    unsubscribe()
    clearTimeout(timer)
  }
}
