// What would become of a request: the server plans it and writes nothing.

import { request } from './client'
import type { components } from './schema'

export type JobBody = components['schemas']['JobIn']

export type Preview = components['schemas']['PreviewOut']
export type Submitted = components['schemas']['SubmittedOut']

export function previewJob(body: JobBody, signal: AbortSignal): Promise<Preview> {
  return request<Preview>('/api/v1/jobs/preview', { method: 'POST', body: JSON.stringify(body), signal })
}

/** Submit; the same key twice is one job, however often the answer is lost. */
export function submitJob(body: JobBody, key: string): Promise<Submitted> {
  return request<Submitted>('/api/v1/jobs', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: { 'Idempotency-Key': key },
  })
}
