// The map of the pool, kept as it is by the events of the pool.
import { useQuery } from '@tanstack/react-query'
import { leaveForLogin, SEAL } from '../../api/client'
import { readProblem } from '../../api/problem'
import { type MapAnswer, type PoolColumns, readColumns } from '../../map/columns'

export const MAP_KEY = ['map'] as const

interface KnownMap {
  readonly tag: string
  readonly columns: PoolColumns
}
let known: KnownMap | null = null

/** Ask for the map. The same answer gives the same columns, so that nothing is drawn again. */
async function readMap({ signal }: { signal: AbortSignal }): Promise<PoolColumns> {
  // The browser itself sends the tag of the answer that it has, and reads that again after a 304.
  const response = await fetch('/api/v1/map', { credentials: 'same-origin', headers: SEAL, signal })
  if (response.status === 401) leaveForLogin()
  if (!response.ok) throw await readProblem(response)
  const tag = response.headers.get('ETag') ?? ''
  if (known !== null && tag !== '' && known.tag === tag) return known.columns
  known = { tag, columns: readColumns((await response.json()) as MapAnswer) }
  return known.columns
}

/** The map as it is now; events of the pool outdate it (src/app/freshness.ts). */
export function usePoolMap() {
  // Columns are compared by themselves: a deep comparison would copy each of them.
  return useQuery({ queryKey: MAP_KEY, queryFn: readMap, structuralSharing: false })
}
