/** Idle jobs, the policies about them, and what these gave back. */

import { request } from '../../api/client'
import { type IdleJob, listIdleJobs } from '../../api/idle'
import { apiPath, putTagged, send, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type IdlePolicy = Schemas['IdlePolicyOut']
export type IdleSaving = Schemas['IdleSavingOut']
export type IdleReport = Schemas['IdleReportOut']
export type { IdleJob }

export { listIdleJobs }

export const listPolicies = (): Promise<IdlePolicy[]> => request<IdlePolicy[]>('/api/v1/idle/policies')

export const getReport = (since: string): Promise<IdleReport> =>
  request<IdleReport>(`/api/v1/idle/report?since=${since}`)

export const deletePolicy = (id: string): Promise<void> => send('DELETE', apiPath('idle', 'policies', id))

export const putPolicy = (tag: string, body: Schemas['IdlePolicyIn']): Promise<Tagged<IdlePolicy>> =>
  putTagged<IdlePolicy>('/api/v1/idle/policies', tag, body)

/** Cards in thousandths that idle jobs hold; a gang counts with all of its members. */
export const sumHeld = (jobs: readonly IdleJob[]): number => jobs.reduce((sum, job) => sum + job.gpu_milli, 0)
