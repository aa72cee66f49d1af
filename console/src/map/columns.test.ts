import { describe, expect, test } from 'vitest'
import {
  computeUse,
  conditionOf,
  countCards,
  findCard,
  findChangedCards,
  freeMilli,
  isStranded,
  nameOf,
  OTHER_TENANT,
  readColumns,
} from './columns'
import { makeAnswer, makeColumns, makeLargeAnswer } from './samples'

describe('readColumns', () => {
  test('gives each card its shares in the order of the answer', () => {
    const columns = makeColumns()
    expect([...columns.shareStart]).toEqual([0, 2, 2, 3, 3, 3])
    expect([...columns.shareTenant]).toEqual([0, 1, OTHER_TENANT])
    expect([...columns.shareMilli]).toEqual([500, 250, 900])
    expect([...columns.shareMib]).toEqual([40 * 1024, 20 * 1024, 45 * 1024])
  })

  test('shows a state of a newer server as unknown', () => {
    const columns = makeColumns({ state: Array(5).fill('hibernating') })
    expect(conditionOf(columns, 0)).toBe('unknown')
  })

  test('names cards as the command line does', () => {
    const columns = makeColumns()
    expect(nameOf(columns, 1)).toBe('node-10:1')
    expect(findCard(columns, 'node-2:1')).toBe(3)
    expect(findCard(columns, 'node-9:0')).toBeNull()
    expect([...countCards(columns).values()]).toEqual([2, 2, 1])
  })
})

describe('a card', () => {
  const columns = makeColumns()

  test('has the worst of its state and health as its condition', () => {
    expect([0, 1, 2, 3, 4].map((card) => conditionOf(columns, card))).toEqual([
      'ok',
      'warning',
      'ok',
      'draining',
      'failed',
    ])
  })

  test('is stranded where compute is free and no share fits', () => {
    expect(freeMilli(columns, 2)).toBe(100)
    expect([0, 1, 2, 3, 4].filter((card) => isStranded(columns, card))).toEqual([2])
  })

  test('has no use where none is reported or nothing is held', () => {
    expect(computeUse(columns, 0)).toBeCloseTo(0.4)
    expect(computeUse(columns, 2)).toBeNull()
    expect(computeUse(columns, 3)).toBeNull()
  })
})

describe('findChangedCards', () => {
  test('finds nothing in the same answer', () => {
    expect(findChangedCards(makeColumns(), makeColumns())).toEqual([])
  })

  test('finds the cards whose numbers or shares differ', () => {
    const answer = makeAnswer({ used_milli: [300, 10, null, 0, 0] })
    answer.shares = [2, 0, 900, 0, 0, 500, 0, 1, 250]
    expect(findChangedCards(makeColumns(), readColumns(answer))).toEqual([1, 2])
  })

  test('finds a share whose memory alone has changed', () => {
    const answer = makeAnswer()
    answer.share_mib = [45 * 1024, 41 * 1024, 20 * 1024]
    expect(findChangedCards(makeColumns(), readColumns(answer))).toEqual([0])
  })

  test('asks for a whole drawing where cards or tenants are others', () => {
    const answer = makeAnswer()
    answer.tenants = ['vision', 'speech']
    expect(findChangedCards(makeColumns(), readColumns(answer))).toBeNull()
    expect(findChangedCards(makeColumns(), readColumns(makeLargeAnswer(5)))).toBeNull()
  })
})
