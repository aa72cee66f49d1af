import { describe, expect, it } from 'vitest'
import {
  comparePrices,
  findFaults,
  findList,
  findPrice,
  makeBody,
  makeDraft,
  type PriceList,
  type Rate,
} from './priceList'

const NOW = Date.UTC(2026, 10, 29, 12, 20)
const HOUR = 3_600_000
const rate = (model: string, price: number, more: Partial<Rate> = {}): Rate => ({
  model,
  price_micro: price * 1e6,
  ...more,
})
const list = (name: string, from: number, rates: Rate[]): PriceList => ({
  name,
  from_ns: from * 1e6,
  until_ns: null,
  generation: 3,
  currency: 'EUR',
  timezone: 'UTC',
  rule: 'max',
  rates,
  preemptible_discount_milli: 250,
  tax_basis_points: 1900,
  reserved_milli: 500,
})

describe('a draft of prices', () => {
  const old = list('winter', NOW - 30 * 24 * HOUR, [rate('*', 2), rate('H200', 3.5, { from_hour: 22, until_hour: 8 })])

  it('shows percentages as they were typed', () => {
    const parts = { preemptible_discount_milli: 290, tax_basis_points: 700, reserved_milli: 570 }
    expect(makeDraft({ ...old, ...parts }, false, NOW, 'UTC')).toMatchObject({
      discountPercent: '29',
      taxPercent: '7',
      reservedPercent: '57',
    })
  })

  it('begins at the next whole hour with the prices of the list before', () => {
    const draft = makeDraft(old, true, NOW, 'UTC')
    expect(findFaults(draft, NOW)).toEqual(new Set())
    const body = makeBody(draft)
    expect(body.from_ns).toBe(Date.UTC(2026, 10, 29, 13, 0) * 1e6)
    const { rates, preemptible_discount_milli: discount, tax_basis_points: tax, reserved_milli: reserved } = body
    expect(rates).toEqual(
      old.rates.map((one) => ({ mechanism: null, sharing: null, from_hour: null, until_hour: null, ...one })),
    )
    expect([discount, tax, reserved]).toEqual([250, 1900, 500])
  })

  it('says what no list can have', () => {
    const draft = makeDraft(old, false, NOW, 'UTC')
    expect(findFaults({ ...draft, from: '2099-01-01T00:20' }, NOW)).toEqual(new Set(['wholeHour']))
    const past = { ...draft, from: '2026-11-01T00:00', currency: '€', discountPercent: '120' }
    expect(findFaults(past, NOW)).toEqual(new Set(['past', 'currency', 'discount']))
    const wrong = draft.rates.map((one) => ({ ...one, fromHour: '8', untilHour: '' }))
    expect(findFaults({ ...draft, from: '2099-01-01T00:00', rates: wrong }, NOW)).toEqual(new Set(['rates']))
  })
})

describe('what a card-hour costs', () => {
  // The same cases as tests/unit/billing/prices/test_price_list.py: the server has the last word.
  const rates = [
    rate('*', 100),
    rate('*', 60, { sharing: 'best-effort' }),
    rate('*', 80, { from_hour: 22, until_hour: 8 }),
    rate('H200', 300),
    rate('H200', 200, { mechanism: 'mig' }),
  ]
  it.each([
    [{ model: 'H200', mechanism: 'fence', sharing: 'fixed' }, 23, 300],
    [{ model: 'H200', mechanism: 'mig', sharing: 'fixed' }, 12, 200],
    [{ model: 'T4', mechanism: 'fence', sharing: 'fixed' }, 23, 80],
    [{ model: 'T4', mechanism: 'fence', sharing: 'fixed' }, 8, 100],
    [{ model: 'T4', mechanism: 'fence', sharing: 'best-effort' }, 23, 60],
  ])('is the price that names most: %o at %i', (asked, hour, price) => {
    expect(findPrice(rates, asked, hour)).toBe(price * 1e6)
  })

  it('is compared in spans of hours, and unknown where a list has no price', () => {
    const changes = comparePrices([], [rate('*', 1), rate('*', 2, { from_hour: 8, until_hour: 20 })], ['L40S'])
    const spans = changes
      .filter((one) => one.model === 'L40S')
      .map((one) => [one.fromHour, one.untilHour, one.before, one.after])
    expect(spans).toEqual([
      [0, 8, null, 1e6],
      [8, 20, null, 2e6],
      [20, 24, null, 1e6],
    ])
  })

  it('before is by the list that holds without the one that is written', () => {
    const lists = [list('a', 1000, []), list('b', 3000, []), list('c', 2000, [])]
    expect(findList(lists, 5000 * 1e6, 'b')?.name).toBe('c')
    expect(findList(lists, 500 * 1e6, 'b')).toBeNull()
  })
})
