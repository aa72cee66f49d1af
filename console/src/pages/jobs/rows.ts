// Rows of the page Jobs: the members of one array, or of one gang, that are near each other are one row.
import type { Job } from '../../api/jobs'

export interface JobRow {
  kind: 'job' | 'group'
  /** Of a group its first member, which shows what the members have in common. */
  job: Job
  /** Array or gang; null for a job alone. */
  group: string | null
  /** Jobs of a group by state. */
  states: ReadonlyMap<string, number>
  isOpen: boolean
  /** True for a member below its group. */
  isMember: boolean
}

const findGroup = (job: Job): string | null => job.array ?? job.gang ?? null

/** The name of an array without the index of its member. */
export function nameGroup(job: Job): string {
  return job.array_index === null || job.array_index === undefined ? job.name : job.name.replace(/\.\d+$/, '')
}

/** Build the rows in the order of `jobs`; a group stands at the place of its first member. */
export function buildRows(jobs: readonly Job[], open: ReadonlySet<string>): JobRow[] {
  const members = new Map<string, Job[]>()
  for (const job of jobs) {
    const group = findGroup(job)
    if (group !== null) members.set(group, [...(members.get(group) ?? []), job])
  }
  const rows: JobRow[] = []
  const done = new Set<string>()
  for (const job of jobs) {
    const group = findGroup(job)
    const own = group === null ? [job] : (members.get(group) ?? [job])
    if (group !== null && (own.length > 1 || job.jobs > 1)) {
      if (done.has(group)) continue
      done.add(group)
      const isOpen = open.has(group)
      rows.push({ kind: 'group', job, group, states: countStates(own), isOpen, isMember: false })
      if (isOpen) for (const member of own) rows.push(buildRow(member, true))
    } else rows.push(buildRow(job, false))
  }
  return rows
}

function buildRow(job: Job, isMember: boolean): JobRow {
  return { kind: 'job', job, group: null, states: countStates([job]), isOpen: false, isMember }
}

function countStates(jobs: readonly Job[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const job of jobs) counts.set(job.state, (counts.get(job.state) ?? 0) + (job.jobs ?? 1))
  return counts
}
