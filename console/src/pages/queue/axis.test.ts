import { describe, expect, test } from 'vitest'
import { listTicks, makeAxis, placeOnAxis, placeSpan, SPANS_HOURS } from './axis'

const NOW = new Date(2026, 10, 23, 10, 24).getTime()
const HOUR = 3_600_000

describe('the time axis', () => {
  const axis = makeAxis(NOW, 12)

  test('has now at a seventh of its width', () => {
    expect(placeOnAxis(axis, NOW)).toBeCloseTo(100 / 7)
    expect(placeOnAxis(axis, NOW + 100 * HOUR)).toBe(100)
    expect(placeOnAxis(axis, NOW - 100 * HOUR)).toBe(0)
  })

  test('cuts spans at its ends and leaves out what is outside', () => {
    expect(placeSpan(axis, NOW - 50 * HOUR, NOW + 50 * HOUR)).toEqual({ left: 0, width: 100 })
    expect(placeSpan(axis, NOW + 13 * HOUR, NOW + 14 * HOUR)).toBeNull()
    expect(placeSpan(axis, NOW - 9 * HOUR, NOW - 8 * HOUR)).toBeNull()
    expect(placeSpan(axis, NOW, NOW)).toBeNull()
  })

  test('names full hours, at most ten, on each span', () => {
    for (const hours of SPANS_HOURS) {
      const ticks = listTicks(makeAxis(NOW, hours))
      expect(ticks.length).toBeGreaterThanOrEqual(3)
      expect(ticks.length).toBeLessThanOrEqual(10)
      for (const tick of ticks) expect(new Date(tick).getMinutes()).toBe(0)
    }
  })
})
