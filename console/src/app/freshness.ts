// Which answers an event of the pool makes outdated.
import type { Query, QueryClient } from '@tanstack/react-query'
import { isRefused } from '../api/problem'
import { listenToEvents, listenToState } from '../live/live'
import type { PoolEvent, StreamState } from '../live/messages'

/** First words of the kinds of event, and the first words of the keys that they outdate. */
const KEYS_BY_KIND: Record<string, readonly string[]> = {
  job: ['jobs', 'job', 'queue', 'overview', 'capacity', 'map', 'services', 'quotas', 'devices', 'nodes'],
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

/** Whether a question got no answer; a refusal is one. */
const hasNoAnswer = ({ state }: Query): boolean => state.status === 'error' && !isRefused(state.error)

/** Where events and the stream's states come from. */
export interface LiveSource {
  listenToEvents(listener: (event: PoolEvent | null) => void): () => void
  listenToState(listener: (state: StreamState) => void): () => void
}

/**
 * Mark answers as outdated when events say so, until the returned function is called.
 *
 * What failed while the server was away is asked again when it is back: no event tells of it.
 */
export function keepFresh(queries: QueryClient, live: LiveSource = { listenToEvents, listenToState }): () => void {
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
  const ignoreEvents = live.listenToEvents((event) => {
    const keys = event === null ? null : findOutdatedKeys(event)
    if (keys === null) all = true
    for (const key of keys ?? []) outdated.add(key)
    timer ??= setTimeout(flush, BURST_MS)
  })
  const ignoreStates = live.listenToState(({ phase }) => {
    if (phase === 'live') void queries.refetchQueries({ type: 'active', predicate: hasNoAnswer })
  })
  return () => {
    ignoreEvents()
    ignoreStates()
    clearTimeout(timer)
  }
}
