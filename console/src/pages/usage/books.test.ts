import { describe, expect, test } from 'vitest'
import {
  findKept,
  findUnused,
  groupByModel,
  listMonths,
  type Report,
  type ReportRow,
  roundParts,
  shiftMonth,
  sortRows,
  sumKinds,
  writeCsv,
} from './books'

function makeRow(kind: ReportRow['kind'], card_milliseconds: number, more = {}): ReportRow {
  return { kind, card_milliseconds, memory_mib_seconds: 0, ...more }
}

const ROWS = [
  makeRow('idle', 500),
  makeRow('tenant', 100, { tenant: 'a' }),
  makeRow('overhead', 20),
  makeRow('tenant', 300, { tenant: 'b' }),
]

test('sumKinds sums what became of the card time', () => {
  expect(sumKinds(ROWS)).toEqual({ tenant: 400, idle: 500, overhead: 20, unmanaged: 0 })
  expect(sortRows(ROWS).map((row) => row.card_milliseconds)).toEqual([300, 100, 500, 20])
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
      const rounded = roundParts(parts).reduce((total, part) => total + part, 0)
      expect(rounded).toBeCloseTo(Math.round(sum / 360_000) / 10, 6)
    }
  })

  test('rounds the largest remainder up', () => {
    expect(roundParts([360_000 * 1.6, 360_000 * 1.4])).toEqual([0.2, 0.1])
  })
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
  expect(line).toBe(`tenant,'=cmd(),"a ""b"", c",'@x,,,,,5,0,,,,-1.50,true`)
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
