// Questions about jobs.
import { request } from './client'
import type { components } from './schema'

export type Job = components['schemas']['JobOut']
export type JobState = 'pending' | 'starting' | 'running' | 'done' | 'failed' | 'stopped' | 'lost'

export const LIVE_STATES: readonly JobState[] = ['pending', 'starting', 'running']
export const ENDED_STATES: readonly JobState[] = ['done', 'failed', 'stopped', 'lost']

export const hasEnded = (job: Pick<Job, 'state'>): boolean => (ENDED_STATES as readonly string[]).includes(job.state)

export interface JobFilter {
  q?: string
  state?: readonly JobState[]
  tenant?: string
  project?: string
  user?: string
  sort?: string
  limit?: number
  cursor?: string
  /** True: jobs that ended too. */
  all?: boolean
}

export type JobPage = components['schemas']['JobPage']

/** One page of the jobs that the viewer may see, filtered and sorted by the server. */
export function listJobs(filter: JobFilter, signal?: AbortSignal): Promise<JobPage> {
  const words = new URLSearchParams()
  for (const name of ['q', 'tenant', 'project', 'user', 'sort', 'cursor'] as const) {
    const value = filter[name]
    if (value) words.set(name, value)
  }
  for (const state of filter.state ?? []) words.append('state', state)
  if (filter.limit !== undefined) words.set('limit', String(filter.limit))
  if (filter.all) words.set('all', 'true')
  return request<JobPage>(`/api/v1/jobs?${words}`, { signal: signal ?? null })
}

export type Explanation = components['schemas']['ExplainOut']
export type Resized = components['schemas']['ResizedOut']

const path = (job: string) => `/api/v1/jobs/${encodeURIComponent(job)}`

export const getJob = (job: string) => request<Job>(path(job))

export const explainJob = (job: string) => request<Explanation>(`${path(job)}/explain`)

/** Ask for the end of a job, or of all live jobs of an array. */
export function stopJob(job: string, graceSeconds: number | null): Promise<Job[]> {
  return request<Job[]>(`${path(job)}/stop`, {
    method: 'POST',
    body: JSON.stringify({ grace_seconds: graceSeconds }),
  })
}

/** Seconds to wait until the job's node has put a new size in force. */
const RESIZE_WAIT_SECONDS = 5

export function resizeJob(job: string, size: { gpu_milli: number; memory_bytes: number }): Promise<Resized> {
  return request<Resized>(`${path(job)}/resize?wait_seconds=${RESIZE_WAIT_SECONDS}`, {
    method: 'POST',
    body: JSON.stringify(size),
  })
}
