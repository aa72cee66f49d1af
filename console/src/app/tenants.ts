// The tenants that the viewer may see, asked once so that each has its mark before a page is drawn.
import { useQuery } from '@tanstack/react-query'
import { api } from '../api/client'
import type { components } from '../api/schema'
import { assignMarks } from '../theme/marks'

type Tenant = components['schemas']['TenantOut']

const PAGE_SIZE = 1000
const STALE_MS = 10 * 60 * 1000

async function listTenants(): Promise<Tenant[]> {
  const found: Tenant[] = []
  let after: string | undefined
  do {
    const query = after === undefined ? { limit: PAGE_SIZE } : { limit: PAGE_SIZE, after }
    const page = (await api.GET('/api/v1/tenants', { params: { query } })).data
    found.push(...(page?.items ?? []))
    after = page?.next ?? undefined
  } while (after !== undefined)
  assignMarks(found)
  return found
}

/** Whether the marks are known, or cannot be: a page is drawn then. */
export function useTenantMarks(): boolean {
  return !useQuery({ queryKey: ['tenants'], queryFn: listTenants, staleTime: STALE_MS }).isPending
}
