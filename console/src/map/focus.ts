/** Where the keys of a keyboard lead on the map. */

import { type MapLayout, rectangleOf } from './layout'

/** Rows that Page Up and Page Down pass. */
const PAGE_ROWS = 10

/**
 * The tile that a key leads to from `tile`; null where the key is none of the map's.
 *
 * Left and right run through the tiles in reading order, up and down keep the column of the page.
 */
export function moveFocus(layout: MapLayout, tile: number, key: string): number | null {
  const last = layout.cards.length - 1
  if (last < 0) return null
  const row = layout.rows[layout.rowOfTile[tile]!]!
  switch (key) {
    case 'ArrowRight':
      return Math.min(last, tile + 1)
    case 'ArrowLeft':
      return Math.max(0, tile - 1)
    case 'ArrowDown':
      return moveRows(layout, tile, 1)
    case 'ArrowUp':
      return moveRows(layout, tile, -1)
    case 'PageDown':
      return moveRows(layout, tile, PAGE_ROWS)
    case 'PageUp':
      return moveRows(layout, tile, -PAGE_ROWS)
    case 'Home':
      return row.first
    case 'End':
      return row.first + row.count - 1
    default:
      return null
  }
}

function moveRows(layout: MapLayout, tile: number, distance: number): number {
  const number = layout.rowOfTile[tile]!
  const column = layout.columns[layout.columnOfRow[number]!]!
  const row = layout.rows[number]!
  const position = column.rows.indexOf(row) + distance
  const target = column.rows[Math.max(0, Math.min(column.rows.length - 1, position))]!
  return target.first + Math.min(target.count - 1, tile - row.first)
}

/** How far a view from `start` of `length` must move, so that the part from `from` to `to` is in it. */
export function scrollInto(start: number, length: number, from: number, to: number): number {
  if (from < start) return from
  return to > start + length ? Math.max(0, to - length) : start
}

/** Where the view of a map must be, so that a tile and a margin around it can be seen. */
export function revealTile(
  layout: MapLayout,
  tile: number,
  view: { left: number; top: number; width: number; height: number },
): { left: number; top: number } {
  const margin = 8
  const { x, y, width, height } = rectangleOf(layout, tile)
  return {
    left: Math.max(0, scrollInto(view.left, view.width, x - margin, x + width + margin)),
    top: Math.max(0, scrollInto(view.top, view.height, y - margin, y + height + margin)),
  }
}
