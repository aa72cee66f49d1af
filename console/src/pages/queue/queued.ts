/** One entry of `GET /api/v1/queue`; of other tenants several jobs, of which only the number is known. */
export interface Queued {
  place: number
  count: number
  job: string | null
  id: string | null
  tenant: string | null
  user: string | null
  share: string | null
  priority: number | null
  gang: boolean
  waited_seconds: number | null
  reason: string | null
  start: string | null
  start_ns: number | null
  start_promised: boolean
  start_chance_pct: number | null
}

/** The text that says how many jobs are ahead of one; null: of a job that waits for an instant or for money none is. */
export function findAheadText(ahead: number | null): 'aheadNone' | 'ahead' | null {
  if (ahead === null) return null
  return ahead === 0 ? 'aheadNone' : 'ahead'
}

/** What tells two entries apart. */
export function keyOf(item: Queued): string {
  return item.id ?? `place ${item.place}`
}
