import { expect, test } from 'vitest'
import { findAheadText } from './queued'

test('an unknown number of jobs ahead is not said to be 0', () => {
  expect([0, 1, 7, null].map(findAheadText)).toEqual(['aheadNone', 'ahead', 'ahead', null])
})
