// Templates: jobs by a few fields. The server checks values and makes the request of them.
import { request } from './client'
import type { JobBody, Submitted } from './preview'
import type { components } from './schema'

export type TemplateRow = components['schemas']['TemplateRow']
export type Template = components['schemas']['TemplateOut']
export type TemplateField = components['schemas']['TemplateField']
/** The job is a body of `POST /jobs`. */
export type Rendering = Omit<components['schemas']['RenderOut'], 'job'> & { job: JobBody }
export type Words = components['schemas']['Words']
export type FieldValue = string | string[]

export interface TemplateUse {
  values: Record<string, FieldValue>
  owner: string | null
  version: number
  name: string | null
}

const pathOf = (name: string) => `/api/v1/templates/${encodeURIComponent(name)}`
const ownerOf = (tenant: string | null) => (tenant === null ? '' : `?tenant=${encodeURIComponent(tenant)}`)

export const listTemplates = (): Promise<TemplateRow[]> => request<TemplateRow[]>('/api/v1/templates')

export const getTemplate = (name: string, tenant: string | null): Promise<Template> =>
  request<Template>(pathOf(name) + ownerOf(tenant))

/** What the template makes of the values; nothing is written. */
export const renderTemplate = (name: string, use: TemplateUse, signal: AbortSignal): Promise<Rendering> =>
  request<Rendering>(`${pathOf(name)}/render`, { method: 'POST', body: JSON.stringify(use), signal })

/** Submit what the template makes; the same key twice is one job. */
export const runTemplate = (name: string, use: TemplateUse, key: string): Promise<Submitted> =>
  request<Submitted>(`${pathOf(name)}/run`, {
    method: 'POST',
    body: JSON.stringify(use),
    headers: { 'Idempotency-Key': key },
  })
