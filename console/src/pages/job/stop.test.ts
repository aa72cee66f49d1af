import { expect, it } from 'vitest'
import { findLoss, readGrace } from './stop'

it('an empty time to end is the one of the node, not none', () => {
  expect([readGrace(''), readGrace(0), readGrace('30')]).toEqual([null, 0, 30])
})

it('what a whole array loses is not what one member does', () => {
  const waits = { started_ns: null, saved_ns: null }
  expect(findLoss(waits, false)).toBe('place')
  expect(findLoss({ started_ns: 1, saved_ns: null }, false)).toBe('all')
  expect(findLoss({ started_ns: 1, saved_ns: 2 }, false)).toBe('since')
  expect(findLoss(waits, true)).toBe('each')
})
