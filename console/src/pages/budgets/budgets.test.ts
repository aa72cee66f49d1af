import { describe, expect, it } from 'vitest'
import {
  type Budget,
  findFaults,
  findFirstOut,
  findScale,
  makeBody,
  makeDraft,
  parseAmount,
  parsePercents,
} from './budgets'

const budget = (changes: object = {}) =>
  ({
    tenant: 'nlp',
    project: null,
    user: null,
    period: 'quarter',
    timezone: 'Asia/Shanghai',
    unit: 'gpu-hours',
    amount: 1200 * 3_600_000,
    warn_percents: [60, 90],
    hold_percent: 100,
    preempt_percent: 120,
    grace_seconds: 7200,
    on_limit: 'preempt',
    spent: 0,
    thresholds: [{ percent: 120, effect: 'preempt', reached_ns: null }],
    forecast: null,
    ...changes,
  }) as unknown as Budget

describe('amounts', () => {
  it('are micro-units of money and milliseconds of cards', () => {
    expect(parseAmount('5,000.25', 'money')).toBe(5_000_250_000)
    expect(parseAmount('12,34,567', 'money')).toBe(1_234_567_000_000)
    expect(parseAmount('1.5', 'gpu-hours')).toBe(5_400_000)
  })

  it.each(['', '0', '-3', 'much', '1e30'])('are not %j', (text) => {
    expect(parseAmount(text, 'money')).toBeNull()
  })

  it.each(['3,50', '1,5', '1.000,50', '1,5,000', ',500'])('have no comma but between thousands: %j', (text) => {
    expect(parseAmount(text, 'money')).toBeNull()
  })
})

it('percentages are whole and between 1 and 1000', () => {
  expect(parsePercents('50, 80 %')).toEqual([50, 80])
  expect(parsePercents('')).toEqual([])
  expect(parsePercents('50, 0')).toBeNull()
  expect(parsePercents('99.5')).toBeNull()
})

describe('a draft', () => {
  it('sends a budget as it was read', () => {
    const known = budget()
    const body = makeBody(makeDraft(known, '', 'UTC'), false)
    for (const [name, value] of Object.entries(body)) {
      if (name !== 'force') expect([name, value]).toEqual([name, known[name as keyof Budget]])
    }
    expect(findFaults(makeDraft(known, '', 'UTC')).size).toBe(0)
  })

  it('sends a threshold that is typed with its sign', () => {
    const draft = { ...makeDraft(budget(), '', 'UTC'), hold: '90 %', preempt: '130%' }
    expect(findFaults(draft).size).toBe(0)
    expect(makeBody(draft, false)).toMatchObject({ hold_percent: 90, preempt_percent: 130 })
  })

  it('names its faults', () => {
    const draft = { ...makeDraft(null, '', 'UTC'), hold: '', graceHours: 'soon' }
    expect([...findFaults(draft)].sort()).toEqual(['amount', 'graceHours', 'hold', 'tenant'])
  })
})

describe('findScale', () => {
  it('ends behind the last threshold and the forecast', () => {
    expect(findScale(budget())).toBeGreaterThan(budget().amount * 1.2)
    const high = budget().amount * 3
    expect(findScale(budget({ forecast: { high } }))).toBeGreaterThan(high)
  })
})

it('findFirstOut takes the earliest end that is foreseen', () => {
  const late = budget({ forecast: { runs_out_ns: 20 } })
  const early = budget({ forecast: { runs_out_ns: 10 } })
  expect(findFirstOut([budget(), late, early])).toBe(early)
  expect(findFirstOut([budget(), budget({ forecast: { runs_out_ns: null } })])).toBeNull()
})
