// The phases of a job on one line of time.
import type { Job } from '../../api/jobs'
import { secondsBetween } from '../../ui/format'

export type PhaseName = 'queued' | 'starting' | 'running'

export interface Phase {
  name: PhaseName
  seconds: number
  /** True for the phase that the job is in. */
  isCurrent: boolean
}

type Times = Pick<Job, 'submitted_ns' | 'placed_ns' | 'started_ns' | 'ended_ns'>

/** List the phases that the job was in, each as long as it took, until now or until its end. */
export function listPhases(job: Times): Phase[] {
  const marks: [PhaseName, number | null | undefined][] = [
    ['queued', job.submitted_ns],
    ['starting', job.placed_ns],
    ['running', job.started_ns],
  ]
  const reached = marks.filter((mark): mark is [PhaseName, number] => mark[1] !== null && mark[1] !== undefined)
  return reached.map(([name, startNs], place) => {
    const endNs = reached[place + 1]?.[1] ?? job.ended_ns
    const isCurrent = endNs === null || endNs === undefined
    return { name, seconds: Math.max(0, secondsBetween(startNs, endNs) ?? 0), isCurrent }
  })
}
