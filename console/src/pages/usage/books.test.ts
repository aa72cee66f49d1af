import { describe, expect, test } from 'vitest'
import {
  findBooks,
  findDigits,
  findKept,
  findMeasured,
  findUnused,
  groupByModel,
  listMonths,
  listShownKinds,
  type Report,
  type ReportRow,
  roundParts,
  shiftMonth,
  sortRows,
  sumKinds,
  sumKnown,
  toThousands,
  writeCsv,
} from './books'

function makeRow(kind: ReportRow['kind'], card_milliseconds: number, more = {}): ReportRow {
  return { kind, card_milliseconds, memory_mib_seconds: 0, ...more }
}

test('books are called intact by those alone that have read the seal', () => {
  expect(findBooks(false, undefined)).toBe('open')
  expect(findBooks(true, undefined)).toBe('sealed')
  expect(findBooks(true, { intact: true })).toBe('intact')
  expect(findBooks(true, { intact: false })).toBe('changed')
})

const ROWS = [
  makeRow('idle', 500),
  makeRow('tenant', 100, { tenant: 'a' }),
  makeRow('overhead', 20),
  makeRow('tenant', 300, { tenant: 'b' }),
]

test('sumKinds sums what became of the card time', () => {
  expect(sumKinds(ROWS)).toEqual({ tenant: 400, reserved: 0, idle: 500, overhead: 20, unmanaged: 0 })
  expect(sortRows(ROWS).map((row) => row.card_milliseconds)).toEqual([300, 100, 500, 20])
})

test('reserved time is in the closing line where there is any', () => {
  const sums = sumKinds([...ROWS, makeRow('reserved', 50, { tenant: 'a' })])
  expect(sums).toEqual({ tenant: 400, reserved: 50, idle: 500, overhead: 20, unmanaged: 0 })
  expect(listShownKinds(sums)).toEqual(['tenant', 'reserved', 'idle', 'overhead', 'unmanaged'])
  expect(listShownKinds(sumKinds(ROWS))).not.toContain('reserved')
})

describe('roundParts', () => {
  test('adds up to the rounded sum, whatever the parts', () => {
    let seed = 7
    for (let round = 0; round < 500; round++) {
      const parts = Array.from({ length: 4 }, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
        return seed
      })
      const sum = parts.reduce((total, part) => total + part, 0)
      for (const digits of [1, 4]) {
        const rounded = roundParts(parts, digits).reduce((total, part) => total + part, 0)
        expect(rounded).toBeCloseTo(Math.round((sum / 3_600_000) * 10 ** digits) / 10 ** digits, 6)
      }
    }
  })

  test('rounds the largest remainder up', () => {
    expect(roundParts([360_000 * 1.6, 360_000 * 1.4], 1)).toEqual([0.2, 0.1])
  })

  test('shows parts of a pool that began a minute ago, not 0 + 0 = 0.05', () => {
    expect(findDigits(180_000)).toBe(3)
    expect(roundParts([69_000, 111_000], 3)).toEqual([0.019, 0.031])
    expect([0, 1, 36_000, 3_600_000, 3.6e9].map(findDigits)).toEqual([1, 4, 3, 1, 1])
  })
})

test('unknown energy stays unknown, and the known adds up', () => {
  const known = makeRow('tenant', 100, { energy_milliwatt_hours: 1_500_000, co2e_milligrams: 0 })
  expect(toThousands(null)).toBeNull()
  expect(toThousands(known.energy_milliwatt_hours)).toBe(1.5)
  expect(sumKnown([known, makeRow('tenant', 1), known], 'energy_milliwatt_hours')).toBe(3_000_000)
  expect(sumKnown([known], 'co2e_milligrams')).toBe(0)
  expect(sumKnown([makeRow('tenant', 1)], 'energy_milliwatt_hours')).toBeNull()
  const report = { capacity_card_milliseconds: 200, measured_card_milliseconds: 50 } as Report
  expect(findMeasured(report)).toBe(0.25)
  expect(findMeasured({ ...report, measured_card_milliseconds: 300 })).toBe(1)
  expect(findMeasured({ ...report, measured_card_milliseconds: null })).toBeNull()
})

test('unknown time stays unknown', () => {
  expect(findKept(makeRow('tenant', 100))).toBeNull()
  expect(findUnused(makeRow('tenant', 100))).toBeNull()
  expect(findUnused(makeRow('tenant', 0, { delivered_gpu_milliseconds: 0 }))).toBeNull()
  const measured = { kept_gpu_milliseconds: 90, denied_gpu_milliseconds: 10 }
  expect(findKept(makeRow('tenant', 100, measured))).toBeCloseTo(0.9)
  expect(findUnused(makeRow('tenant', 100, { delivered_gpu_milliseconds: 25 }))).toBeCloseTo(0.75)
})

test('writeCsv makes formulas text and quotes what must be quoted', () => {
  const report = {
    simulated: true,
    rows: [makeRow('tenant', 5, { tenant: '=cmd()', project: 'a "b", c', user: '@x', cost: '-1.50' })],
  } as unknown as Report
  const [header, line] = writeCsv(report).split('\r\n')
  expect(header).toMatch(/^\uFEFFkind,tenant,/)
  expect(line).toBe(`tenant,'=cmd(),"a ""b"", c",'@x,,,,,5,0,,,,-1.50,,,,true`)
})

test('months begin in UTC and go over the turn of a year', () => {
  expect(shiftMonth('2026-01', -1)).toBe('2025-12')
  expect(listMonths(Date.UTC(2026, 1, 28, 23), 3)).toEqual(['2026-02', '2026-01', '2025-12'])
})

test('groupByModel sums cards of a model, and an unknown part makes the sum unknown', () => {
  const rows = [
    makeRow('tenant', 5, { model: 'L40S', delivered_gpu_milliseconds: 1 }),
    makeRow('tenant', 9, { model: 'H200', delivered_gpu_milliseconds: 2 }),
    makeRow('tenant', 6, { model: 'L40S', delivered_gpu_milliseconds: null }),
  ]
  expect(groupByModel(rows).map((row) => [row.model, row.card_milliseconds, row.delivered_gpu_milliseconds])).toEqual([
    ['L40S', 11, null],
    ['H200', 9, 2],
  ])
})
