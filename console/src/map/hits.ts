/** What lies under a point of the map. */

import type { PoolColumns } from './columns'
import { WHOLE_MILLI } from './columns'
import { findRowBelow, type MapLayout, rectangleOf } from './layout'

export interface Hit {
  readonly tile: number
  readonly card: number
  /** Index into the shares of the columns; null over the free part of the card. */
  readonly share: number | null
}

/** Find the tile and the share at a point, in pixels of the whole map; null between tiles. */
export function findHit(layout: MapLayout, columns: PoolColumns, x: number, y: number): Hit | null {
  const tile = findTile(layout, x, y)
  if (tile === null) return null
  const card = layout.cards[tile]!
  const milli = ((x - rectangleOf(layout, tile).x) / layout.cell) * WHOLE_MILLI
  return { tile, card, share: findShare(columns, card, milli) }
}

function findTile(layout: MapLayout, x: number, y: number): number | null {
  const column = layout.columns.find((each) => x >= each.x && x < each.x + layout.columnWidth)
  if (!column) return null
  const row = column.rows[findRowBelow(column.rows, layout.height, y)]
  if (!row || y < row.y) return null
  const offset = x - row.x - layout.labelWidth
  const position = Math.floor(offset / (layout.cell + layout.gap))
  if (offset < 0 || position >= row.count) return null
  return offset - position * (layout.cell + layout.gap) < layout.cell ? row.first + position : null
}

function findShare(columns: PoolColumns, card: number, milli: number): number | null {
  let end = 0
  for (let share = columns.shareStart[card]!; share < columns.shareStart[card + 1]!; share++) {
    end += columns.shareMilli[share]!
    if (milli < end) return share
  }
  return null
}
