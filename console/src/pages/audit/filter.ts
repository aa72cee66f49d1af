// The filter of the page Audit, as the page's address, the question and the command have it. Pure.
export const KINDS = ['change', 'request', 'refusal', 'login', 'logout'] as const

export interface AuditFilter {
  user: string
  action: string
  object: string
  tenant: string
  kind: string
}

export const EMPTY: AuditFilter = { user: '', action: '', object: '', tenant: '', kind: '' }
export const FIELDS = ['user', 'action', 'object', 'tenant', 'kind'] as const

/** Read a filter from the page's address; what it does not know it leaves out. */
export function readFilter(search: Record<string, unknown>): AuditFilter {
  const found = { ...EMPTY }
  for (const field of FIELDS) {
    const value = search[field]
    // The router reads `?object=7` as a number.
    if (typeof value === 'string' || typeof value === 'number') found[field] = String(value)
  }
  if (!(KINDS as readonly string[]).includes(found.kind)) found.kind = ''
  return found
}

/** Write a filter as the page's address, without what is empty. */
export function writeFilter(filter: AuditFilter): Record<string, string> {
  const words: Record<string, string> = {}
  for (const field of FIELDS) {
    const value = filter[field].trim()
    if (value !== '') words[field] = value
  }
  return words
}

/** Build the question for a page of records, the newest first. */
export function buildQuestion(filter: AuditFilter, after: string | undefined, limit: number): string {
  const words = new URLSearchParams({ ...writeFilter(filter), order: 'newest', limit: String(limit) })
  if (after !== undefined) words.set('after', after)
  return `/api/v1/audit?${words}`
}

/** Write the command that lists the same. */
export function writeCommand(filter: AuditFilter): string {
  const words = Object.entries(writeFilter(filter)).map(([name, value]) => `--${name} ${quoteWord(value)}`)
  return ['gpupool audit list', ...words].join(' ')
}

function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
