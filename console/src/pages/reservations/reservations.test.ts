import { describe, expect, it } from 'vitest'
import { type Draft, findFaults, findOverlaps, listTimes, makeBody, nextHour, type Reservation } from './reservations'

const HOUR_NS = 3600e9
const DAY_S = 86_400
const at = (hours: number) => 1_800_000_000e9 + hours * HOUR_NS
const held = (changes: object) =>
  ({ name: 'held', start_ns: at(0), end_ns: at(2), every_seconds: null, until_ns: null, ...changes }) as Reservation
const draft: Draft = {
  name: 'demo',
  tenant: '',
  gpu: '0.5',
  count: '2',
  replicas: '3',
  memoryGib: '20',
  model: '',
  start: '2027-03-01T08:00',
  hours: '1.5',
  repeat: 'never',
  until: '',
}

describe('listTimes', () => {
  it('repeats until its end, and no longer than asked', () => {
    const daily = held({ every_seconds: DAY_S, until_ns: at(49) })
    expect(listTimes(daily, at(1000) / 1e6)).toHaveLength(3)
    expect(listTimes(daily, at(30) / 1e6)).toHaveLength(2)
  })

  it('is one time without a repetition, and without an end it goes on', () => {
    expect(listTimes(held({ end_ns: null }), at(9) / 1e6)).toEqual([
      { fromMs: at(0) / 1e6, toMs: Number.POSITIVE_INFINITY },
    ])
  })
})

describe('findOverlaps', () => {
  it('finds a repetition that meets the draft', () => {
    const daily = held({ every_seconds: DAY_S })
    expect(findOverlaps(held({ start_ns: at(25), end_ns: at(27) }), [daily])).toEqual([daily])
  })

  it('leaves out what ends when the draft begins', () => {
    expect(findOverlaps(held({ start_ns: at(2), end_ns: at(3) }), [held({})])).toEqual([])
  })
})

describe('a draft', () => {
  it('is sent in the units of the API', () => {
    const body = makeBody(draft)
    expect(body.shape).toEqual({ gpu_milli: 500, count: 2, memory_bytes: 20 * 1024 ** 3, model: null })
    expect(body.end_ns).toBe(body.start_ns + 5400e9)
    expect(Number.isSafeInteger(body.start_ns / 1e9)).toBe(true)
    expect([body.every_seconds, body.until_ns]).toEqual([null, null])
    expect(findFaults(draft).size).toBe(0)
  })

  it('names its faults', () => {
    const wrong = { ...draft, name: ' ', gpu: '2', count: '0', start: '', hours: '', repeat: 'day' as const }
    expect([...findFaults(wrong)].sort()).toEqual(['count', 'gpu', 'hours', 'name', 'start'])
  })
})

it('nextHour is a full hour ahead', () => {
  const now = new Date(2027, 2, 1, 7, 59).getTime()
  expect(nextHour(now)).toBe('2027-03-01T08:00')
})
