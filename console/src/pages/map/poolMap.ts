// The map of the pool, kept as it is by the events of the pool.
import { useQuery } from '@tanstack/react-query'
import { leaveForLogin, SEAL } from '../../api/client'
import { readProblem } from '../../api/problem'
import { type MapAnswer, type MapChanges, type PoolColumns, patchColumns, readColumns } from '../../map/columns'

export const MAP_KEY = ['map'] as const

interface KnownMap {
  readonly tag: string
  readonly cursor: string
  readonly columns: PoolColumns
}
let known: KnownMap | null = null

/**
 * Ask for the map, or for the cards that have changed since the one that is known.
 *
 * Where nothing has changed the columns are the same, so that nothing is drawn again.
 */
async function readMap({ signal }: { signal: AbortSignal }): Promise<PoolColumns> {
  const base = known
  const query = base?.cursor ? `?after=${encodeURIComponent(base.cursor)}` : ''
  // The browser itself sends the tag of a whole answer that it has, and reads that again after a 304.
  const response = await fetch(`/api/v1/map${query}`, { credentials: 'same-origin', headers: SEAL, signal })
  if (response.status === 401) leaveForLogin()
  if (!response.ok) throw await readProblem(response)
  const tag = response.headers.get('ETag') ?? ''
  if (base !== null && tag !== '' && base.tag === tag) return base.columns
  const answer = (await response.json()) as MapAnswer | MapChanges
  if ('changed' in answer && base !== null) {
    known = { tag: '', cursor: answer.cursor, columns: patchColumns(base.columns, answer) }
  } else {
    known = { tag, cursor: answer.cursor ?? '', columns: readColumns(answer as MapAnswer) }
  }
  return known.columns
}

/** The map as it is now; events of the pool outdate it (src/app/freshness.ts). */
export function usePoolMap() {
  // Columns are compared by themselves: a deep comparison would copy each of them.
  return useQuery({ queryKey: MAP_KEY, queryFn: readMap, structuralSharing: false })
}
