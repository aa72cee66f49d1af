import { expect, test } from 'vitest'
import { countFragments } from './fragments'
import { makeColumns } from './samples'
import { describeCard } from './words'

test('countFragments sums what is free, in pieces and stranded, by model', () => {
  const [h200, l40s] = countFragments(makeColumns())
  expect(h200).toEqual({
    model: 'H200',
    cards: 2,
    heldMilli: 750,
    freeMilli: 1250,
    wholeCards: 1,
    fragmentMilli: 250,
    strandedMilli: 0,
    largestMilli: 1000,
    pieces: [0, 1, 0, 1],
  })
  // The draining card and the failed one give nothing.
  expect(l40s).toMatchObject({ cards: 3, freeMilli: 100, strandedMilli: 100, wholeCards: 0 })
})

test('describeCard names the shares, what is free and what is wrong', () => {
  const t = (key: string, values?: Record<string, string | number>): string =>
    values ? `${key}(${Object.values(values).join()})` : key
  const columns = makeColumns()
  expect(describeCard(columns, 0, t)).toBe(
    'node-10:0, H200: vision 0.50, nlp 0.25, map:freeAmount(0.25), map:useAmount(40)',
  )
  expect(describeCard(columns, 2, t)).toBe('node-2:0, L40S: map:anotherTenant 0.90, map:freeAmount(0.10)')
  expect(describeCard(columns, 4, t)).toContain('map:condition.failed')
})
