import { describe, expect, test } from 'vitest'
import { readColumns } from './columns'
import { moveFocus, revealTile } from './focus'
import { groupCards } from './groups'
import { findHit } from './hits'
import { indexTiles, layOut, type MapLayout, rectangleOf, stepZoom, visitRows } from './layout'
import { makeColumns, makeLargeAnswer } from './samples'

const LARGE = readColumns(makeLargeAnswer(2000))

function layOutLarge(zoom = 1): MapLayout {
  return layOut(groupCards(LARGE, 'rack'), 1000, zoom)
}

describe('layOut', () => {
  test('gives each card a place, and no two the same', () => {
    for (const zoom of [0.25, 1, 2.2]) {
      const layout = layOutLarge(zoom)
      const places = new Set<string>()
      for (let tile = 0; tile < layout.cards.length; tile++) {
        const { x, y, width } = rectangleOf(layout, tile)
        expect(x + width).toBeLessThanOrEqual(layout.totalWidth)
        places.add(`${x} ${y}`)
      }
      expect(places.size).toBe(2000)
    }
  })

  test('shows 10,000 cards on one screen at 25 %', () => {
    const columns = readColumns(makeLargeAnswer(10_000))
    const layout = layOut(groupCards(columns, 'node'), 1100, 0.25)
    expect(layout.totalWidth).toBeLessThanOrEqual(1100)
    expect(layout.totalHeight).toBeLessThanOrEqual(800)
  })

  test('spreads a single group over the columns that have room', () => {
    const layout = layOut(groupCards(LARGE, 'node'), 1000, 1)
    expect(layout.columns.length).toBeGreaterThan(1)
    const lengths = layout.columns.map((column) => column.rows.length)
    expect(Math.max(...lengths) - Math.min(...lengths)).toBeLessThanOrEqual(lengths.length)
  })

  test('lays out a pool without cards', () => {
    const layout = layOut([], 800, 1)
    expect([layout.cards.length, layout.columns.length]).toEqual([0, 0])
    expect(moveFocus(layout, 0, 'ArrowRight')).toBeNull()
  })
})

test('stepZoom stops at both ends', () => {
  expect([stepZoom(1, 1), stepZoom(1, -1), stepZoom(2.2, 1), stepZoom(0.25, -1)]).toEqual([1.3, 0.8, 2.2, 0.25])
})

test('visitRows visits exactly the rows in the view', () => {
  const layout = layOutLarge()
  const area = { x: 0, y: 300, width: 1000, height: 200 }
  const visited = new Set<number>()
  visitRows(layout, area, (row) => {
    visited.add(row.first)
  })
  const expected = layout.rows.filter((row) => row.y + layout.height > 300 && row.y < 500)
  expect([...visited].sort()).toEqual(expected.map((row) => row.first).sort())
  expect(visited.size).toBeGreaterThan(0)
})

test('indexTiles lists every tile of a card', () => {
  const layout = layOut(groupCards(LARGE, 'tenant'), 1000, 1)
  const index = indexTiles(layout, LARGE.size)
  for (let card = 0; card < LARGE.size; card += 97) {
    const found: number[] = []
    for (let tile = index.first[card]!; tile >= 0; tile = index.next[tile]!) found.push(tile)
    const expected = [...layout.cards.keys()].filter((tile) => layout.cards[tile] === card)
    expect(found).toEqual(expected)
  }
})

describe('findHit', () => {
  const columns = makeColumns()
  const layout = layOut(groupCards(columns, 'rack'), 800, 1)
  const tileOf = (card: number): number => layout.cards.indexOf(card)

  test('finds the share under the point, and the free part', () => {
    const { x, y, width } = rectangleOf(layout, tileOf(0))
    expect(findHit(layout, columns, x + width * 0.3, y + 3)?.share).toBe(0)
    expect(findHit(layout, columns, x + width * 0.6, y + 3)?.share).toBe(1)
    expect(findHit(layout, columns, x + width * 0.9, y + 3)).toEqual({
      tile: tileOf(0),
      card: 0,
      share: null,
    })
  })

  test('finds every tile at its middle and nothing between two', () => {
    for (let tile = 0; tile < layout.cards.length; tile++) {
      const { x, y, width, height } = rectangleOf(layout, tile)
      expect(findHit(layout, columns, x + width / 2, y + height / 2)?.tile).toBe(tile)
      expect(findHit(layout, columns, x + width + 1, y + height / 2)).toBeNull()
      expect(findHit(layout, columns, x + 1, y + height + 1)).toBeNull()
    }
  })
})

describe('moveFocus', () => {
  const layout = layOutLarge()

  test('walks through every card by the right arrow', () => {
    let tile = 0
    for (let step = 0; step < 5000; step++) tile = moveFocus(layout, tile, 'ArrowRight')!
    expect(tile).toBe(1999)
    expect(moveFocus(layout, tile, 'Home')).toBe(1992)
    expect(moveFocus(layout, 1992, 'End')).toBe(1999)
  })

  test('keeps the column of the page by up and down', () => {
    const below = moveFocus(layout, 3, 'ArrowDown')!
    expect(rectangleOf(layout, below).x).toBe(rectangleOf(layout, 3).x)
    expect(rectangleOf(layout, below).y).toBeGreaterThan(rectangleOf(layout, 3).y)
    expect(moveFocus(layout, below, 'ArrowUp')).toBe(3)
    expect(moveFocus(layout, moveFocus(layout, 3, 'PageDown')!, 'PageUp')).toBe(3)
  })

  test('leaves other keys alone', () => {
    expect(moveFocus(layout, 3, 'a')).toBeNull()
    expect(moveFocus(layout, 3, 'Tab')).toBeNull()
  })
})

test('revealTile moves a view only as far as it must', () => {
  const layout = layOutLarge()
  const view = { left: 0, top: 0, width: 1000, height: 400 }
  expect(revealTile(layout, 0, view)).toEqual({ left: 0, top: 0 })
  const last = rectangleOf(layout, 1999)
  const moved = revealTile(layout, 1999, view)
  expect(moved.top).toBe(Math.max(0, last.y + last.height + 8 - 400))
})
