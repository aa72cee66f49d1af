import { expect, it } from 'vitest'
import { buildUsePath } from './usePath'

const box = { width: 100, height: 50, most: 100 }

it('draws a line from the first sample to the last one', () => {
  expect(buildUsePath([10, 20, 30], [0, 50, 100], box)).toBe('M0.0 50.0L50.0 25.0L100.0 0.0')
})

it('does not bridge a gap, and cuts what is beyond the box', () => {
  expect(buildUsePath([0, 1, 2], [150, null, 0], box)).toBe('M0.0 0.0M100.0 50.0')
})

it('draws nothing without samples', () => {
  expect(buildUsePath([], [], box)).toBe('')
})
