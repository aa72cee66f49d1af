import { afterEach, expect, test, vi } from 'vitest'
import { findSubjects, listNodes, type PoolCard, writeQuery } from './fleet'

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

afterEach(() => vi.unstubAllGlobals())

test('the nodes are all of them, however many answers that takes', async () => {
  const asked: string[] = []
  vi.stubGlobal('fetch', async (path: string) => {
    asked.push(path)
    const isFirst = !path.includes('after=')
    return Response.json(isFirst ? { items: [{ name: 'n1' }], next: 'n1' } : { items: [{ name: 'n2' }], next: null })
  })
  expect((await listNodes()).map((node) => node.name)).toEqual(['n1', 'n2'])
  expect(asked).toHaveLength(2)
})

test('a query has the values that are given, escaped', () => {
  expect(writeQuery({ node: 'n&1', state: null, limit: 5 })).toBe('node=n%261&limit=5')
})
