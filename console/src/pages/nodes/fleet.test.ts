import { expect, test } from 'vitest'
import { findSubjects, type PoolCard, writeQuery } from './fleet'

const card = (name: string, state: PoolCard['state'], cluster = false) => ({ name, state, cluster }) as PoolCard
const CARDS = [
  card('a', 'adopted'),
  card('o', 'observed'),
  card('d', 'draining'),
  card('l', 'lost'),
  card('c', 'adopted', true),
]
const namesOf = (cards: PoolCard[]) => cards.map((each) => each.name).join('')

test('an act leaves out the cards that it cannot change', () => {
  expect(namesOf(findSubjects('adopt', CARDS))).toBe('od')
  expect(namesOf(findSubjects('drain', CARDS))).toBe('a')
  expect(namesOf(findSubjects('release', CARDS))).toBe('ad')
})

test('a query has the values that are given, escaped', () => {
  expect(writeQuery({ node: 'n&1', state: null, limit: 5 })).toBe('node=n%261&limit=5')
})
