// What a stop asks for, and what is lost by it.
import type { Job } from '../../api/jobs'

/** Seconds between SIGTERM and SIGKILL as they are typed; null: nothing is typed, and the node's own hold. */
export const readGrace = (typed: number | string): number | null => (typed === '' ? null : Number(typed) || 0)

/** `each`: of a whole array every member loses its own. */
export type StopLoss = 'each' | 'place' | 'since' | 'all'

export function findLoss(job: Pick<Job, 'started_ns' | 'saved_ns'>, isWholeArray: boolean): StopLoss {
  if (isWholeArray) return 'each'
  if (job.started_ns == null) return 'place'
  return job.saved_ns ? 'since' : 'all'
}
