// Tenants, users, tokens and sessions as the server has them, and what a viewer may do with them.
import type { components } from '../../api/schema'
import type { Session } from '../../app/session'

type Schemas = components['schemas']
export type TenantRow = Schemas['TenantOut']
export type User = Schemas['UserOut']
export type Token = Schemas['TokenOut']
export type LoginSession = Schemas['SessionRowOut']
export type Role = User['role']
export type Kind = 'person' | 'service'

export const ROLES: readonly Role[] = [
  'admin',
  'operator',
  'auditor',
  'tenant-admin',
  'user',
  'viewer',
  'agent',
  'scrape',
  'meter',
  'scim',
]
/** Roles inside a tenant: those that its admin may give. */
const TENANT_ROLES: readonly Role[] = ['tenant-admin', 'user', 'viewer']

export const may = (session: Session | undefined, permission: string): boolean =>
  session?.permissions.includes(permission) ?? false

/** Roles that the viewer may give. */
export const listRoles = (session: Session | undefined): readonly Role[] =>
  may(session, 'manage-pool') ? ROLES : TENANT_ROLES

/** Rows one of whose words contains what was typed; case does not matter. */
export function filterRows<Row>(
  rows: readonly Row[],
  typed: string,
  words: (row: Row) => readonly (string | null | undefined)[],
): Row[] {
  const wanted = typed.trim().toLowerCase()
  if (wanted === '') return [...rows]
  return rows.filter((row) => words(row).some((word) => word?.toLowerCase().includes(wanted)))
}

const DAY_SECONDS = 86_400

/** Days as the seconds that the API takes; null: until it is revoked; undefined: not a number of days. */
export function parseDays(text: string): number | null | undefined {
  const typed = text.trim()
  if (typed === '') return null
  const days = Number(typed)
  return Number.isInteger(days) && days >= 1 && days <= 3650 ? days * DAY_SECONDS : undefined
}

/** Whether a new thing would replace another one: the server sets what has its name. */
export const isTaken = (name: string, names: readonly string[]): boolean => names.includes(name.trim())

/** Words of a list that is typed with commas or spaces between them. */
export const splitWords = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '')

/** The list with one of its entries moved up (-1) or down (1); unchanged at its ends. */
export function moveEntry<Entry>(entries: readonly Entry[], from: number, distance: -1 | 1): Entry[] {
  const moved = [...entries]
  const to = from + distance
  if (to < 0 || to >= entries.length) return moved
  const [entry] = moved.splice(from, 1)
  moved.splice(to, 0, entry as Entry)
  return moved
}

/** A browser's own description in two words: `Firefox, Linux`. */
export function nameBrowser(agent: string): string {
  // Later browsers name the earlier ones too, so that the order of this list decides.
  const browser = ['Edg', 'OPR', 'Firefox', 'Chrome', 'Safari'].find((name) => agent.includes(`${name}/`))
  const system = /Windows|Android|iPhone|iPad|Mac OS X|Linux/.exec(agent)?.[0]
  const names: Record<string, string> = { Edg: 'Edge', OPR: 'Opera' }
  const words = [browser === undefined ? undefined : (names[browser] ?? browser), system]
  return words.filter((word) => word !== undefined).join(', ')
}
