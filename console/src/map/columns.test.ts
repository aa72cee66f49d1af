import { describe, expect, test } from 'vitest'
import {
  computeUse,
  conditionOf,
  countCards,
  findCard,
  findChangedCards,
  freeMilli,
  isStranded,
  type MapAnswer,
  type MapChanges,
  nameOf,
  OTHER_TENANT,
  patchColumns,
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

describe('patchColumns', () => {
  /** What the server sends for cards of a map that differ from another one. */
  const makeChanges = (after: MapAnswer, changed: number[]): MapChanges => {
    const pick = <Value>(column: Value[]) => changed.map((card) => column[card]!)
    const { id, node, index, model, ...columns } = after.cards
    const rows = Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, pick<unknown>(column)]))
    const shares: number[] = []
    const share_mib: number[] = []
    after.share_mib.forEach((mib, share) => {
      if (!changed.includes(after.shares[share * 3]!)) return
      shares.push(...after.shares.slice(share * 3, share * 3 + 3))
      share_mib.push(mib)
    })
    return {
      seq: after.seq,
      cursor: 'm-1.2',
      tenants: after.tenants,
      changed,
      rows: rows as MapChanges['rows'],
      shares,
      share_mib,
    }
  }

  test('gives the columns of the whole answer', () => {
    const after = makeAnswer({
      state: ['adopted', 'lost', 'adopted', 'draining', 'adopted'],
      mechanism: ['mig', null, 'mps', 'mps', null],
      used_milli: [null, null, null, 0, 0],
      held_milli: [500, 0, 900, 0, 0],
      largest_milli: [500, 0, 0, 0, 0],
    })
    after.seq = 9
    after.shares = [0, 0, 500, 2, -1, 900]
    after.share_mib = [40 * 1024, 45 * 1024]
    expect(patchColumns(makeColumns(), makeChanges(after, [0, 1]))).toEqual(readColumns(after))
  })

  test('keeps the tenants of other cards by name where their positions move', () => {
    const before = makeColumns()
    const after = makeAnswer()
    after.tenants = ['audio', 'vision', 'nlp']
    after.shares = [2, -1, 900, 0, 1, 500, 0, 2, 250, 4, 0, 100]
    after.share_mib = [45 * 1024, 40 * 1024, 20 * 1024, 1024]
    expect(patchColumns(before, makeChanges(after, [4]))).toEqual(readColumns(after))
  })

  test('gives the same object where nothing has changed', () => {
    const before = makeColumns()
    expect(patchColumns(before, makeChanges(makeAnswer(), []))).toBe(before)
  })

  test('changes a card of a large pool and no other', () => {
    const answer = makeLargeAnswer(2000)
    const before = readColumns(answer)
    const after = makeLargeAnswer(2000)
    after.cards.used_milli[777] = 1
    const patched = patchColumns(before, makeChanges(after, [777]))
    expect(findChangedCards(before, patched)).toEqual([777])
    expect(patched).toEqual(readColumns(after))
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
