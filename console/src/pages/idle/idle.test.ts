import { expect, it } from 'vitest'
import { type IdleJob, sumHeld } from './idle'

it('adds what idle jobs hold', () => {
  expect(sumHeld([{ gpu_milli: 500 }, { gpu_milli: 2000 }] as IdleJob[])).toBe(2500)
  expect(sumHeld([])).toBe(0)
})
