// The days of a month as columns of a chart. Days begin in UTC, as in the ledger.
import { type ReportRow, shiftMonth, toCardHours } from './books'

/** One tenant over the days; the rest of the capacity has no tenant. Null: the day is not known. */
export interface DaySeries {
  readonly name: string
  readonly tenant: string | null
  /** Time that tenants reserved and no job used. */
  readonly isReserved?: boolean
  readonly hours: readonly (number | null)[]
}

/** The days of a month that have begun, as `2026-11-05`. */
export function listDays(month: string, nowMs: number): string[] {
  const days: string[] = []
  const end = Math.min(nowMs, Date.parse(`${shiftMonth(month, 1)}-01T00:00:00Z`) - 1)
  for (let at = Date.parse(`${month}-01T00:00:00Z`); at <= end; at += 86_400_000) {
    days.push(new Date(at).toISOString().slice(0, 10))
  }
  return days
}

/** The day after, as an end that the report takes; `now` for the day that is not over. */
export function findDayEnd(day: string, nowMs: number): string {
  const next = Date.parse(`${day}T00:00:00Z`) + 86_400_000
  return next > nowMs ? 'now' : new Date(next).toISOString().slice(0, 10)
}

/** Tenants that have a series of their own: the largest; the others are summed. */
const MOST_SERIES = 12

/**
 * Sum the rows of each day by tenant, the largest first, then other tenants, what was reserved and unused, and the rest.
 *
 * @param days rows of each day; null where they are not known
 */
export function makeSeries(
  days: readonly (readonly ReportRow[] | null)[],
  names: { readonly others: string; readonly reserved: string; readonly rest: string },
): DaySeries[] {
  const totals = new Map<string, number>()
  for (const rows of days) {
    for (const row of rows ?? []) {
      if (row.kind !== 'tenant') continue
      const tenant = row.tenant ?? ''
      totals.set(tenant, (totals.get(tenant) ?? 0) + row.card_milliseconds)
    }
  }
  const ranked = [...totals].sort(([, first], [, second]) => second - first).map(([tenant]) => tenant)
  const shown = ranked.slice(0, MOST_SERIES)
  const sum = (rows: readonly ReportRow[] | null, matches: (row: ReportRow) => boolean) => {
    if (rows === null) return null
    return toCardHours(rows.filter(matches).reduce((total, row) => total + row.card_milliseconds, 0))
  }
  const series: DaySeries[] = shown.map((tenant) => ({
    name: tenant,
    tenant,
    hours: days.map((rows) => sum(rows, (row) => row.kind === 'tenant' && row.tenant === tenant)),
  }))
  if (ranked.length > shown.length) {
    const isOther = (row: ReportRow) => row.kind === 'tenant' && !shown.includes(row.tenant ?? '')
    series.push({ name: names.others, tenant: null, hours: days.map((rows) => sum(rows, isOther)) })
  }
  const isReserved = (row: ReportRow) => row.kind === 'reserved'
  if (days.some((rows) => rows?.some(isReserved))) {
    const hours = days.map((rows) => sum(rows, isReserved))
    series.push({ name: names.reserved, tenant: null, isReserved: true, hours })
  }
  const isRest = (row: ReportRow) => row.kind !== 'tenant' && row.kind !== 'reserved'
  series.push({ name: names.rest, tenant: null, hours: days.map((rows) => sum(rows, isRest)) })
  return series
}
