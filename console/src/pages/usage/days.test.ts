import { expect, test } from 'vitest'
import type { ReportRow } from './books'
import { findDayEnd, listDays, makeSeries } from './days'

const HOUR = 3_600_000
const row = (kind: ReportRow['kind'], tenant: string | null, hours: number): ReportRow => ({
  kind,
  tenant,
  card_milliseconds: hours * HOUR,
  memory_mib_seconds: 0,
})
const NAMES = { others: 'other tenants', reserved: 'reserved, unused', rest: 'idle' }

test('a month has the days that have begun', () => {
  const now = Date.UTC(2026, 10, 3, 9)
  expect(listDays('2026-11', now)).toEqual(['2026-11-01', '2026-11-02', '2026-11-03'])
  expect(listDays('2026-02', now)).toHaveLength(28)
  expect(listDays('2026-12', now)).toEqual([])
  expect(findDayEnd('2026-11-02', now)).toBe('2026-11-03')
  expect(findDayEnd('2026-11-03', now)).toBe('now')
})

test('series have the largest tenant first, the rest last, and a gap for an unknown day', () => {
  const days = [[row('tenant', 'a', 1), row('tenant', 'b', 5), row('idle', null, 2), row('overhead', null, 1)], null]
  expect(makeSeries(days, NAMES)).toEqual([
    { name: 'b', tenant: 'b', hours: [5, null] },
    { name: 'a', tenant: 'a', hours: [1, null] },
    { name: 'idle', tenant: null, hours: [3, null] },
  ])
})

test('reserved and unused time is a series between the tenants and the rest', () => {
  const days = [
    [row('tenant', 'a', 1), row('reserved', 'a', 2), row('reserved', 'b', 3), row('idle', null, 4)],
    [row('idle', null, 10)],
  ]
  expect(makeSeries(days, NAMES)).toEqual([
    { name: 'a', tenant: 'a', hours: [1, 0] },
    { name: 'reserved, unused', tenant: null, isReserved: true, hours: [5, 0] },
    { name: 'idle', tenant: null, hours: [4, 10] },
  ])
})

test('tenants beyond the twelve largest are one series', () => {
  const tenants = Array.from({ length: 15 }, (_, tenant) => row('tenant', `t${tenant}`, tenant + 1))
  const series = makeSeries([tenants], NAMES)
  expect(series).toHaveLength(14)
  expect(series.at(-2)).toEqual({ name: 'other tenants', tenant: null, hours: [1 + 2 + 3] })
})
