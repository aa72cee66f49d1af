import { describe, expect, it } from 'vitest'
import { findFaults, type Move, makeDefragBody, makeMovesBody, NO_LIMITS, sumByTenant } from './moves'

const move = (changes: Partial<Move>) =>
  ({ job: 'j1', tenant: 'nlp', cards: ['GPU-1'], generations: [7], lost_seconds: 60, name: 'one', ...changes }) as Move

describe('limits', () => {
  it('are null where nothing is typed, and lost work is in seconds', () => {
    expect(makeDefragBody(NO_LIMITS)).toEqual({
      cards: null,
      blocks: null,
      max_moves: null,
      max_moves_per_tenant: null,
      max_lost_seconds: null,
    })
    expect(makeDefragBody({ ...NO_LIMITS, cards: '4', maxLostHours: '1.5' })).toMatchObject({
      cards: 4,
      max_lost_seconds: 5400,
    })
  })

  it('name their faults', () => {
    expect([...findFaults({ ...NO_LIMITS, cards: '0', maxMoves: '0', blocks: '1.5' })]).toEqual(['cards', 'blocks'])
  })
})

it('a move is sent with the generations that the plan has read', () => {
  expect(makeMovesBody([move({})])).toEqual({ moves: [{ job: 'j1', cards: ['GPU-1'], generations: [7] }] })
})

it('sums by tenant begin with the largest loss', () => {
  const moves = [move({}), move({ tenant: 'cv', lost_seconds: 100 }), move({ lost_seconds: 10 })]
  expect(sumByTenant(moves)).toEqual([
    { tenant: 'cv', jobs: 1, lostSeconds: 100 },
    { tenant: 'nlp', jobs: 2, lostSeconds: 70 },
  ])
})
