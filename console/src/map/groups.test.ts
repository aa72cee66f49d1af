import { describe, expect, test } from 'vitest'
import { OTHER_TENANT } from './columns'
import { compareNames, groupCards, sumHeldMilli } from './groups'
import { makeColumns } from './samples'

describe('groupCards', () => {
  const columns = makeColumns()

  test('puts nodes in the order that people count, and racks without a name last', () => {
    const groups = groupCards(columns, 'rack')
    expect(groups.map((group) => group.title)).toEqual(['r1', 'r2', ''])
    expect(groupCards(columns, 'node')[0]!.rows.map((row) => row.label)).toEqual(['node-2', 'node-3', 'node-10'])
  })

  test('sums what is held of a group', () => {
    const [first] = groupCards(columns, 'domain')
    expect(first).toMatchObject({ title: 'd1', cards: 4 })
    expect(sumHeldMilli(columns, first!)).toBe(1650)
  })

  test('gives a tenant the cards on which it is, and other tenants one group without a name', () => {
    const groups = groupCards(columns, 'tenant')
    const shown = groups.map((group) => [group.title, group.tenant, group.cards, sumHeldMilli(columns, group)])
    expect(shown).toEqual([
      ['nlp', 1, 1, 250],
      ['vision', 0, 1, 500],
      ['', OTHER_TENANT, 1, 900],
    ])
  })

  test('has each card once by rack, node, domain and model', () => {
    for (const grouping of ['rack', 'node', 'domain', 'model'] as const) {
      const cards = groupCards(columns, grouping)
        .flatMap((group) => group.rows.flatMap((row) => row.cards))
        .sort()
      expect(cards).toEqual([0, 1, 2, 3, 4])
    }
  })
})

test('compareNames counts numbers and puts no name last', () => {
  expect(['', 'b', 'a10', 'a2'].sort(compareNames)).toEqual(['a2', 'a10', 'b', ''])
})
