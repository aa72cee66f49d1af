/** The books of a month: what the report's rows come to, and the same as CSV. Pure. */

export type RowKind = 'tenant' | 'reserved' | 'idle' | 'overhead' | 'unmanaged'

/** A row of `GET /api/v1/report`, as far as the page needs it. */
export interface ReportRow {
  kind: RowKind
  tenant?: string | null
  project?: string | null
  user?: string | null
  job?: string | null
  job_name?: string | null
  device?: string | null
  model?: string | null
  card_milliseconds: number
  memory_mib_seconds: number
  delivered_gpu_milliseconds?: number | null
  kept_gpu_milliseconds?: number | null
  denied_gpu_milliseconds?: number | null
  cost?: string | null
  energy_milliwatt_hours?: number | null
  measured_card_milliseconds?: number | null
  co2e_milligrams?: number | null
}

export interface Report {
  since_ns: number
  until_ns: number
  by: string[]
  capacity_card_milliseconds: number
  capacity_memory_mib_seconds: number
  rows: ReportRow[]
  closes: boolean
  simulated: boolean | null
  currency?: string | null
  total_cost?: string | null
  energy_milliwatt_hours?: number | null
  measured_card_milliseconds?: number | null
  co2e_milligrams?: number | null
  rule: string
}

export const KINDS: readonly RowKind[] = ['tenant', 'reserved', 'idle', 'overhead', 'unmanaged']
const HOUR_MS = 3_600_000

/** Sum the rows by what became of the card time, in the order of the closing line. */
export function sumKinds(rows: readonly ReportRow[]): Record<RowKind, number> {
  const sums: Record<RowKind, number> = { tenant: 0, reserved: 0, idle: 0, overhead: 0, unmanaged: 0 }
  for (const row of rows) sums[row.kind] += row.card_milliseconds
  return sums
}

/** What the closing line shows: the unused time of reservations only where there is any. */
export function listShownKinds(sums: Record<RowKind, number>): RowKind[] {
  return KINDS.filter((kind) => kind !== 'reserved' || sums.reserved > 0)
}

/** Digits after the point of the closing line: one, and more for the first hour of a pool, at most four. */
export function findDigits(capacity: number): number {
  let digits = 1
  while (digits < 4 && capacity > 0 && toCardHours(capacity) < 10 ** (1 - digits)) digits += 1
  return digits
}

/**
 * The parts of the closing line in card-hours with these digits, rounded so that they add up to the
 * rounded capacity: the largest remainders are rounded up.
 */
export function roundParts(parts: readonly number[], digits: number): number[] {
  const scale = 10 ** digits
  const unit = HOUR_MS / scale
  const exact = parts.map((part) => part / unit)
  const rounded = exact.map(Math.floor)
  const total = Math.round(exact.reduce((sum, part) => sum + part, 0))
  let missing = total - rounded.reduce((sum, part) => sum + part, 0)
  const order = exact
    .map((part, index) => ({ index, rest: part - Math.floor(part) }))
    .sort((first, second) => second.rest - first.rest)
  for (const { index } of order) {
    if (missing <= 0) break
    rounded[index] = (rounded[index] ?? 0) + 1
    missing -= 1
  }
  return rounded.map((part) => part / scale)
}

export function toCardHours(milliseconds: number): number {
  return milliseconds / HOUR_MS
}

/** Part of the promised GPU time that was kept, 0 to 1; null where it was not measured. */
export function findKept(row: ReportRow): number | null {
  const kept = row.kept_gpu_milliseconds
  const denied = row.denied_gpu_milliseconds
  if (kept == null || denied == null || kept + denied === 0) return null
  return kept / (kept + denied)
}

/** Part of the held time that was not used, 0 to 1; null where it was not measured. */
export function findUnused(row: ReportRow): number | null {
  const delivered = row.delivered_gpu_milliseconds
  if (delivered == null || row.card_milliseconds === 0) return null
  return Math.max(0, 1 - delivered / row.card_milliseconds)
}

/** Milliwatt-hours as kWh, or milligrams as kg; null is unknown. */
export function toThousands(millionths: number | null | undefined): number | null {
  return millionths == null ? null : millionths / 1_000_000
}

/** The sum of what is known of a field; null where it is unknown of every row. */
export function sumKnown(
  rows: readonly ReportRow[],
  field: 'energy_milliwatt_hours' | 'co2e_milligrams',
): number | null {
  const known = rows.map((row) => row[field]).filter((value) => value != null)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
}

/** Part of the card time in which cards reported their power, 0 to 1; null where none did. */
export function findMeasured(report: Report): number | null {
  const measured = report.measured_card_milliseconds
  if (measured == null || report.capacity_card_milliseconds === 0) return null
  return Math.min(1, measured / report.capacity_card_milliseconds)
}

/** Sort rows: tenants by their time, then the rest in the order of the closing line. */
export function sortRows(rows: readonly ReportRow[]): ReportRow[] {
  return [...rows].sort(
    (first, second) =>
      KINDS.indexOf(first.kind) - KINDS.indexOf(second.kind) || second.card_milliseconds - first.card_milliseconds,
  )
}

const SUMMED = [
  'card_milliseconds',
  'memory_mib_seconds',
  'delivered_gpu_milliseconds',
  'kept_gpu_milliseconds',
  'denied_gpu_milliseconds',
] as const

/** Sum rows of cards by model, the largest first. A sum with an unknown part is unknown. */
export function groupByModel(rows: readonly ReportRow[]): ReportRow[] {
  const sums = new Map<string, ReportRow>()
  for (const row of rows) {
    const model = row.model ?? ''
    const before = sums.get(model)
    if (!before) {
      sums.set(model, { ...row, tenant: null, device: null, model })
      continue
    }
    for (const field of SUMMED) {
      const [one, other] = [before[field], row[field]]
      Object.assign(before, { [field]: one == null || other == null ? null : one + other })
    }
  }
  return sortRows([...sums.values()])
}

/** What is known of a month's books: whether a seal still holds is for those to say that have read the seals. */
export function findBooks(isSealed: boolean, seal: { intact: boolean } | undefined): string {
  if (!isSealed) return 'open'
  if (seal === undefined) return 'sealed'
  return seal.intact ? 'intact' : 'changed'
}

const CSV_COLUMNS = [
  'kind',
  'tenant',
  'project',
  'user',
  'job',
  'job_name',
  'device',
  'model',
  'card_milliseconds',
  'memory_mib_seconds',
  'delivered_gpu_milliseconds',
  'kept_gpu_milliseconds',
  'denied_gpu_milliseconds',
  'cost',
  'energy_milliwatt_hours',
  'measured_card_milliseconds',
  'co2e_milligrams',
] as const

/** A program for tables runs a cell that begins with one of these. */
const FORMULA = /^[=+\-@\t\r]/
const NUMBER = /^-?\d+(\.\d+)?$/

function writeCell(value: string | number | null | undefined): string {
  if (value == null) return ''
  if (typeof value === 'number') return String(value)
  const text = FORMULA.test(value) && !NUMBER.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** The report as CSV with a byte order mark, so that spreadsheets read it as UTF-8. */
export function writeCsv(report: Report): string {
  const header = [...CSV_COLUMNS, 'simulated'].join(',')
  const lines = report.rows.map((row) =>
    [...CSV_COLUMNS.map((column) => writeCell(row[column])), String(report.simulated)].join(','),
  )
  return `\uFEFF${[header, ...lines].join('\r\n')}\r\n`
}

/** The month of an instant as `2026-11`, and the one before or after. */
export function shiftMonth(month: string, distance: number): string {
  const [year, number] = month.split('-').map(Number) as [number, number]
  const shifted = new Date(Date.UTC(year, number - 1 + distance, 1))
  return shifted.toISOString().slice(0, 7)
}

/** The latest `count` months, this one first. Months begin in UTC, as in the ledger. */
export function listMonths(nowMs: number, count: number): string[] {
  const month = new Date(nowMs).toISOString().slice(0, 7)
  return Array.from({ length: count }, (_, distance) => shiftMonth(month, -distance))
}
