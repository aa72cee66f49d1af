import { describe, expect, test } from 'vitest'
import {
  compareChange,
  findChosen,
  findScale,
  keyOf,
  listRows,
  parseCards,
  type QuotaNode,
  type QuotaRow,
} from './tree'

function makeNode(
  kind: QuotaNode['kind'],
  name: string,
  parent: string | null,
  [nominal, borrowing, held, borrowed, lent]: [number, number | null, number, number, number],
): QuotaNode {
  return {
    kind,
    name,
    parent,
    weight_milli: 1000,
    limits: kind === 'pool' ? [] : [{ resource: 'gpu', nominal, borrowing, lending: null, held, borrowed, lent }],
    held_milli: held,
    held_memory_bytes: 0,
    share_percent: 0,
    due_percent: 0,
    past_card_hours: 0,
  }
}

const ROWS = listRows([
  makeNode('pool', 'pool', null, [0, null, 20_000, 0, 0]),
  makeNode('cohort', 'research', null, [16_000, 8_000, 14_000, 0, 0]),
  makeNode('tenant', 'vision', 'research', [8_000, 4_000, 9_000, 1_000, 0]),
  makeNode('tenant', 'nlp', 'research', [6_000, null, 5_000, 0, 1_000]),
  makeNode('tenant', 'edu', null, [4_000, 2_000, 6_000, 2_000, 0]),
])

const findRow = (name: string): QuotaRow => {
  const row = ROWS.find((each) => each.node.name === name)
  if (!row) throw new Error(`no row ${name}`)
  return row
}

test('a tenant is chosen beside a cohort of its name', () => {
  const rows = listRows([
    makeNode('pool', 'pool', null, [0, null, 0, 0, 0]),
    makeNode('cohort', 'vision', null, [8_000, null, 0, 0, 0]),
    makeNode('tenant', 'vision', 'vision', [4_000, null, 0, 0, 0]),
  ])
  for (const row of rows.slice(1)) expect(findChosen(rows, keyOf(row.node))).toBe(row)
  expect(findChosen(rows, null)).toBe(rows[1])
})

test('listRows gives each node its depth and its limit', () => {
  expect(ROWS.map((row) => [row.node.name, row.level, row.limitMilli])).toEqual([
    ['pool', 0, null],
    ['research', 1, 24_000],
    ['vision', 2, 12_000],
    ['nlp', 2, null],
    ['edu', 1, 6_000],
  ])
  expect(findScale(ROWS, 20_000)).toBe(24_000)
  expect(findScale([], 0)).toBe(1000)
})

describe('compareChange', () => {
  test('says what is guaranteed afterwards and what could be asked back', () => {
    const found = compareChange(ROWS, findRow('nlp'), { guaranteeMilli: 8_000, borrowingMilli: 0 }, 20_000)
    expect(found).toMatchObject({
      guaranteedBeforeMilli: 14_000,
      guaranteedAfterMilli: 16_000,
      capacityMilli: 16_000,
      exceedsParent: false,
      limitBeforeMilli: null,
      limitAfterMilli: 8_000,
      reclaimableMilli: 1_000,
      givers: ['vision'],
    })
  })

  test('finds guarantees beyond what the parent has', () => {
    const change = { guaranteeMilli: 12_000, borrowingMilli: null }
    expect(compareChange(ROWS, findRow('vision'), change, 20_000).exceedsParent).toBe(true)
    expect(compareChange(ROWS, findRow('edu'), { ...change, guaranteeMilli: 4_001 }, 20_000)).toMatchObject({
      capacityMilli: 20_000,
      guaranteedAfterMilli: 20_001,
      exceedsParent: true,
    })
  })

  test('finds what is held beyond the new limit, and what is freed', () => {
    const change = { guaranteeMilli: 2_000, borrowingMilli: 1_000 }
    expect(compareChange(ROWS, findRow('edu'), change, 20_000)).toMatchObject({
      overLimitMilli: 3_000,
      freedMilli: 2_000,
      reclaimableMilli: 0,
      givers: [],
    })
  })
})

test('parseCards reads what people write and refuses the rest', () => {
  expect([parseCards('8'), parseCards('1.5'), parseCards(' 0,25 ')]).toEqual([8000, 1500, 250])
  for (const text of ['', '-1', '1.2345', '8 cards', '1e3', '∞']) {
    expect(parseCards(text)).toBeNull()
  }
})
