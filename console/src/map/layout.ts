/** Where each card stands on the map. Pure arithmetic: no canvas, no document. */

import type { CardGroup } from './groups'

/** One line of cards. Its cards are the tiles from `first` to `first + count`. */
export interface TileRow {
  readonly x: number
  readonly y: number
  readonly first: number
  readonly count: number
  readonly group: number
  readonly label: string
  readonly model: string
}

export interface GroupHead {
  readonly x: number
  readonly y: number
  readonly group: number
}

/** A column of the page: its rows from the top down. */
export interface LayoutColumn {
  readonly x: number
  readonly rows: readonly TileRow[]
  readonly heads: readonly GroupHead[]
}

export interface MapLayout {
  readonly cell: number
  readonly height: number
  readonly gap: number
  readonly labelWidth: number
  readonly columnWidth: number
  readonly columns: readonly LayoutColumn[]
  /** The card of each tile. A card on which several tenants are has a tile in each group. */
  readonly cards: Int32Array
  readonly rowOfTile: Int32Array
  readonly rows: readonly TileRow[]
  readonly columnOfRow: Int32Array
  readonly totalWidth: number
  readonly totalHeight: number
}

export interface Rectangle {
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

/** Pixels between two columns of groups. */
const COLUMN_GAP = 28
/** Pixels above the rows of a group, for its title. */
const HEAD_HEIGHT = 30
/** Pixels below a group. */
const GROUP_GAP = 16
/** Pixels left of a row, for the name of its node. */
const LABEL_WIDTH = 84
/** Below this width of a cell the names of nodes find no room beside their rows. */
const LEAST_LABELLED_CELL = 12
/** The widest cell at 100 %, and the one of a large pool. */
const WIDEST_CELL = 64
const CELL_OF_LARGE_POOL = 22
/** From so many cards on, a pool is drawn small at 100 %. */
const LARGE_POOL = 400
const NARROWEST_CELL = 4

export const ZOOMS = [0.25, 0.4, 0.6, 0.8, 1, 1.3, 1.7, 2.2] as const

/** The next step of the zoom above or below, at the ends the same. */
export function stepZoom(zoom: number, direction: 1 | -1): number {
  const steps = direction > 0 ? ZOOMS : [...ZOOMS].reverse()
  const found = steps.find((step) => (direction > 0 ? step > zoom + 1e-9 : step < zoom - 1e-9))
  return found ?? zoom
}

/**
 * Lay the groups out in columns, each group into the column that is shortest so far.
 *
 * @param width pixels that the map may take without scrolling sideways
 * @param zoom 1 is 100 %
 */
export function layOut(groups: readonly CardGroup[], width: number, zoom: number): MapLayout {
  const longest = Math.max(1, ...groups.map(lengthOfLongestRow))
  const cards = groups.reduce((sum, group) => sum + group.cards, 0)
  const hasLabels = groups.some((group) => group.rows.some((row) => row.label !== ''))
  const cell = chooseCell(width, longest, cards, hasLabels, zoom)
  const gap = cell >= 15 ? 4 : cell >= 8 ? 2 : 1
  const rowGap = cell >= 15 ? 8 : gap
  const height = cell >= 15 ? Math.max(18, Math.round(Math.min(cell * 0.8, 88))) : cell
  const labelWidth = hasLabels && cell >= LEAST_LABELLED_CELL ? LABEL_WIDTH : 0
  const columnWidth = labelWidth + longest * (cell + gap)
  const count = Math.max(1, Math.floor((width + COLUMN_GAP) / (columnWidth + COLUMN_GAP)))
  const plan = placeGroups(groups, {
    columnWidth,
    count: groups.length === 1 ? count : Math.min(count, groups.length),
    rowHeight: height + rowGap,
  })
  const used = plan.columns.length
  return {
    cell,
    height,
    gap,
    labelWidth,
    columnWidth,
    ...plan,
    totalWidth: Math.max(width, used * columnWidth + (used - 1) * COLUMN_GAP),
  }
}

function lengthOfLongestRow(group: CardGroup): number {
  return group.rows.reduce((longest, row) => Math.max(longest, row.cards.length), 1)
}

function chooseCell(width: number, longest: number, cards: number, hasLabels: boolean, zoom: number): number {
  const columns = width > 620 ? 2 : 1
  const room = (width - COLUMN_GAP * (columns - 1)) / columns - (hasLabels ? LABEL_WIDTH : 0)
  const widest = cards > LARGE_POOL ? CELL_OF_LARGE_POOL : WIDEST_CELL
  const natural = Math.min(widest, room / longest - 4)
  return Math.max(NARROWEST_CELL, Math.floor(Math.max(natural, 15) * zoom))
}

interface Placing {
  readonly columnWidth: number
  readonly count: number
  readonly rowHeight: number
}

function placeGroups(groups: readonly CardGroup[], placing: Placing) {
  const columns = Array.from({ length: placing.count }, (_, column) => ({
    x: column * (placing.columnWidth + COLUMN_GAP),
    rows: [] as TileRow[],
    heads: [] as GroupHead[],
  }))
  const bottoms = new Array<number>(placing.count).fill(0)
  const cards: number[] = []
  const rowOfTile: number[] = []
  const rows: TileRow[] = []
  const columnOfRow: number[] = []
  const place = (group: CardGroup, number: number, from: number, to: number): void => {
    const column = bottoms.indexOf(Math.min(...bottoms))
    const { x } = columns[column]!
    columns[column]!.heads.push({ x, y: bottoms[column]!, group: number })
    let y = bottoms[column]! + HEAD_HEIGHT
    for (const { label, model, cards: members } of group.rows.slice(from, to)) {
      const row = { x, y, first: cards.length, count: members.length, group: number, label, model }
      columns[column]!.rows.push(row)
      columnOfRow.push(column)
      for (const card of members) {
        cards.push(card)
        rowOfTile.push(rows.length)
      }
      rows.push(row)
      y += placing.rowHeight
    }
    bottoms[column] = y + GROUP_GAP
  }
  groups.forEach((group, number) => {
    // One group alone is cut into as many equal parts as there are columns.
    const part = groups.length === 1 ? Math.ceil(group.rows.length / placing.count) : Infinity
    for (let from = 0; from < group.rows.length; from += part) {
      place(group, number, from, from + part)
    }
  })
  return {
    columns: columns.filter((column) => column.rows.length > 0),
    cards: Int32Array.from(cards),
    rowOfTile: Int32Array.from(rowOfTile),
    rows,
    columnOfRow: Int32Array.from(columnOfRow),
    totalHeight: Math.max(0, ...bottoms),
  }
}

/** The rectangle of a tile, in pixels of the whole map. */
export function rectangleOf(layout: MapLayout, tile: number): Rectangle {
  const row = layout.rows[layout.rowOfTile[tile]!]!
  return {
    x: row.x + layout.labelWidth + (tile - row.first) * (layout.cell + layout.gap),
    y: row.y,
    width: layout.cell,
    height: layout.height,
  }
}

/** The first row of a column of which a part is below `y`, by bisection. */
export function findRowBelow(rows: readonly { readonly y: number }[], height: number, y: number): number {
  let low = 0
  let high = rows.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (rows[middle]!.y + height <= y) low = middle + 1
    else high = middle
  }
  return low
}

/** Call `visit` with each row of which a part lies in the rectangle. */
export function visitRows(layout: MapLayout, area: Rectangle, visit: (row: TileRow) => void): void {
  for (const column of layout.columns) {
    if (column.x >= area.x + area.width || column.x + layout.columnWidth <= area.x) continue
    let row = findRowBelow(column.rows, layout.height, area.y)
    for (; row < column.rows.length && column.rows[row]!.y < area.y + area.height; row++) {
      visit(column.rows[row]!)
    }
  }
}

/** Tiles by card, as lists in two arrays: `first[card]`, then `next[tile]`, until -1. */
export interface TileIndex {
  readonly first: Int32Array
  readonly next: Int32Array
}

/** Build the index from cards to their tiles. */
export function indexTiles(layout: MapLayout, size: number): TileIndex {
  const first = new Int32Array(size).fill(-1)
  const next = new Int32Array(layout.cards.length).fill(-1)
  for (let tile = layout.cards.length - 1; tile >= 0; tile--) {
    const card = layout.cards[tile]!
    next[tile] = first[card]!
    first[card] = tile
  }
  return { first, next }
}
