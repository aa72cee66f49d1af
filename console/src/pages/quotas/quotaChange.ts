// The quota of one tenant or cohort as the server has it, with the generation that a change names.
import { SEAL } from '../../api/client'
import { readProblem } from '../../api/problem'
import type { Change, QuotaNode } from './tree'

/** The body of `PUT /api/v1/tenants/{tenant}/quota` and `PUT /api/v1/cohorts/{cohort}`. */
export interface QuotaBody {
  nominal_milli: number | null
  borrowing_milli: number | null
  nominal_memory_bytes: number | null
  borrowing_memory_bytes: number | null
  lending_milli: number | null
  lending_memory_bytes: number | null
  weight_milli: number
  cohort: string | null
  others: { resource: string; nominal: number; borrowing: number | null; lending: number | null }[]
}

export interface KnownQuota {
  readonly body: QuotaBody
  /** The header `ETag` of the answer: the server refuses a change that names an older one. */
  readonly tag: string
}

const FIELDS = [
  'nominal_milli',
  'borrowing_milli',
  'nominal_memory_bytes',
  'borrowing_memory_bytes',
  'lending_milli',
  'lending_memory_bytes',
  'weight_milli',
  'cohort',
  'others',
] as const

function findPath(node: Pick<QuotaNode, 'kind' | 'name'>): string {
  const name = encodeURIComponent(node.name)
  return node.kind === 'tenant' ? `/api/v1/tenants/${name}/quota` : `/api/v1/cohorts/${name}`
}

async function readQuota(response: Response): Promise<KnownQuota> {
  if (!response.ok) throw await readProblem(response)
  const answer = (await response.json()) as QuotaBody
  const body = Object.fromEntries(FIELDS.map((field) => [field, answer[field]])) as unknown as QuotaBody
  return { body, tag: response.headers.get('ETag') ?? '' }
}

/** Read the whole quota of a node. */
export async function fetchQuota(node: Pick<QuotaNode, 'kind' | 'name'>): Promise<KnownQuota> {
  return readQuota(await fetch(findPath(node), { credentials: 'same-origin', headers: SEAL, cache: 'no-store' }))
}

/**
 * Change the compute of a quota; everything else of it stays as it was read.
 *
 * @throws Problem GP-4001 where another change came first.
 */
export async function putQuota(
  node: Pick<QuotaNode, 'kind' | 'name'>,
  known: KnownQuota,
  change: Change,
): Promise<KnownQuota> {
  const body: QuotaBody = {
    ...known.body,
    nominal_milli: change.guaranteeMilli,
    borrowing_milli: change.borrowingMilli,
  }
  const headers = { ...SEAL, 'Content-Type': 'application/json', 'If-Match': known.tag }
  const init = { method: 'PUT', credentials: 'same-origin', headers, body: JSON.stringify(body) } as const
  return readQuota(await fetch(findPath(node), init))
}
