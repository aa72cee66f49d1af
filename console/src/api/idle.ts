// Questions about jobs that do not use their cards.
import { request } from './client'
import type { components } from './schema'

export type IdleJob = components['schemas']['IdleJobOut']

const path = (job: string) => `/api/v1/jobs/${encodeURIComponent(job)}/idle`

/** Whether a running job is idle, and what its idle policies do with it; null where it runs no more. */
export async function getIdleness(job: string): Promise<IdleJob | null> {
  const found = await request<IdleJob[]>(`/api/v1/idle/jobs?all=true&job=${encodeURIComponent(job)}`)
  return found[0] ?? null
}

/** Idle jobs that the viewer may see, those that are idle for longest first. */
export const listIdleJobs = () => request<IdleJob[]>('/api/v1/idle/jobs')

/** Leave an idle job alone for as long as its rule allows. */
export const keepJob = (job: string) =>
  request<IdleJob>(`${path(job)}/keep`, { method: 'POST', body: JSON.stringify({ seconds: null }) })
