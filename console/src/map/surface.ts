/**
 * The canvas of the map. It is as large as the view, not as the map, and draws only what changed:
 * the strip that a scroll uncovers, or the tiles of the cards that an event is about.
 */

import type { Mark } from '../theme/marks'
import type { PoolColumns } from './columns'
import type { CardGroup } from './groups'
import {
  indexTiles,
  type MapLayout,
  type Rectangle,
  rectangleOf,
  type TileIndex,
  type TileRow,
  visitRows,
} from './layout'
import type { Palette } from './palette'
import { type Colouring, paintTile } from './tiles'

/** All that decides how the map looks. */
export interface Scene {
  readonly columns: PoolColumns
  readonly groups: readonly CardGroup[]
  readonly layout: MapLayout
  readonly colouring: Colouring
  readonly marks: readonly Mark[]
  readonly palette: Palette
  /** The lines above each group: its title, and what is held of it. */
  readonly titles: readonly (readonly [title: string, amount: string])[]
}

/** Pixels by which the line above a group may be wider than its rows: less than the gap between columns. */
const HEAD_OVERHANG = 20
/** Pixels around a tile that its edge and badge take. */
const MARGIN = 3

export class MapSurface {
  /** Tiles that the latest call painted, and all calls: what tests and benches count. */
  painted = 0
  paintedInAll = 0
  private scene: Scene | null = null
  private index: TileIndex | null = null
  private left = 0
  private top = 0
  private width = 0
  private height = 0
  private ratio = 1
  private readonly context: CanvasRenderingContext2D

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.context = canvas.getContext('2d', { alpha: false })!
  }

  get drawing(): CanvasRenderingContext2D {
    return this.context
  }

  /** Give the canvas the size of the view. What was drawn is lost: call `show` after it. */
  resize(width: number, height: number, ratio: number): void {
    this.width = width
    this.height = height
    this.ratio = ratio
    this.canvas.width = Math.round(width * ratio)
    this.canvas.height = Math.round(height * ratio)
  }

  /** Draw the whole view of a scene. */
  show(scene: Scene): void {
    if (this.scene?.layout !== scene.layout || !this.index) {
      this.index = indexTiles(scene.layout, scene.columns.size)
    }
    this.scene = scene
    this.painted = 0
    this.paintArea({ x: this.left, y: this.top, width: this.width, height: this.height })
  }

  /**
   * Draw the tiles of these cards, where they are in the view, and the lines above the groups.
   * The layout must be the same.
   */
  update(scene: Scene, cards: readonly number[]): void {
    if (!this.scene || !this.index) return
    this.scene = scene
    this.painted = 0
    this.context.save()
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    for (const card of cards) {
      for (let tile = this.index.first[card]!; tile >= 0; tile = this.index.next[tile]!) {
        if (this.isInView(tile)) this.paintTileAt(scene, tile)
      }
    }
    const view = { x: this.left, y: this.top, width: this.width, height: this.height }
    this.paintHeads(scene, view)
    this.context.restore()
  }

  /** Move the view. What stays in it is copied, the rest is painted. */
  moveTo(left: number, top: number): void {
    const x = Math.round(left) - this.left
    const y = Math.round(top) - this.top
    if (x === 0 && y === 0) return
    this.left += x
    this.top += y
    this.painted = 0
    if (!this.scene) return
    const exact = Number.isInteger(x * this.ratio) && Number.isInteger(y * this.ratio)
    if (!exact || Math.abs(x) >= this.width || Math.abs(y) >= this.height) {
      // A copy between device pixels would blur.
      this.paintArea({ x: this.left, y: this.top, width: this.width, height: this.height })
      return
    }
    this.context.setTransform(1, 0, 0, 1, 0, 0)
    this.context.drawImage(this.canvas, -x * this.ratio, -y * this.ratio)
    const { left: viewLeft, top: viewTop, width, height } = this
    if (y > 0) this.paintArea({ x: viewLeft, y: viewTop + height - y, width, height: y })
    if (y < 0) this.paintArea({ x: viewLeft, y: viewTop, width, height: -y })
    if (x > 0) this.paintArea({ x: viewLeft + width - x, y: viewTop, width: x, height })
    if (x < 0) this.paintArea({ x: viewLeft, y: viewTop, width: -x, height })
  }

  private isInView(tile: number): boolean {
    const { x, y, width, height } = rectangleOf(this.scene!.layout, tile)
    return (
      x + width + MARGIN > this.left &&
      x - MARGIN < this.left + this.width &&
      y + height + MARGIN > this.top &&
      y - MARGIN < this.top + this.height
    )
  }

  /** Paint a rectangle of the map; nothing outside it changes. */
  private paintArea(area: Rectangle): void {
    const scene = this.scene!
    const { context } = this
    context.save()
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    context.beginPath()
    context.rect(area.x - this.left, area.y - this.top, area.width, area.height)
    context.clip()
    context.fillStyle = scene.palette.surface
    context.fillRect(area.x - this.left, area.y - this.top, area.width, area.height)
    const wide = {
      x: area.x - MARGIN,
      y: area.y - MARGIN,
      width: area.width + 2 * MARGIN,
      height: area.height + 2 * MARGIN,
    }
    visitRows(scene.layout, wide, (row) => {
      this.paintRow(scene, row, wide)
    })
    this.paintHeads(scene, area)
    context.restore()
  }

  private paintRow(scene: Scene, row: TileRow, area: Rectangle): void {
    const { labelWidth, cell, gap } = scene.layout
    const start = area.x - row.x - labelWidth
    const first = Math.max(0, Math.floor(start / (cell + gap)))
    const end = Math.min(row.count, Math.ceil((start + area.width) / (cell + gap)))
    for (let position = first; position < end; position++) {
      this.paintTileAt(scene, row.first + position)
    }
    if (labelWidth > 0 && row.label !== '') this.paintLabel(scene, row)
  }

  private paintTileAt(scene: Scene, tile: number): void {
    const { x, y, width, height } = rectangleOf(scene.layout, tile)
    const group = scene.groups[scene.layout.rows[scene.layout.rowOfTile[tile]!]!.group]!
    paintTile(
      this.context,
      scene.columns,
      scene.layout.cards[tile]!,
      { x: x - this.left, y: y - this.top, width, height },
      {
        palette: scene.palette,
        colouring: scene.colouring,
        marks: scene.marks,
        tenant: group.tenant,
        margin: Math.min(MARGIN, scene.layout.gap - 1),
      },
    )
    this.painted += 1
    this.paintedInAll += 1
  }

  private paintLabel(scene: Scene, row: TileRow): void {
    const { context } = this
    const { palette, layout } = scene
    const x = row.x - this.left
    const middle = row.y - this.top + layout.height / 2
    const room = layout.labelWidth - 8
    const hasModel = layout.height >= 24 && row.model !== ''
    context.textAlign = 'left'
    context.fillStyle = palette.secondInk
    context.font = `480 12px ${palette.font}`
    context.fillText(fitText(context, row.label, room), x, middle + (hasModel ? -2 : 4))
    if (!hasModel) return
    context.fillStyle = palette.thirdInk
    context.font = `480 11px ${palette.font}`
    context.fillText(fitText(context, row.model, room), x, middle + 11)
  }

  private paintHeads(scene: Scene, area: Rectangle): void {
    const { context } = this
    const { palette } = scene
    for (const column of scene.layout.columns) {
      for (const head of column.heads) {
        if (head.y > area.y + area.height || head.y + 30 < area.y) continue
        const [title, amount] = scene.titles[head.group]!
        const x = head.x - this.left
        const y = head.y - this.top + 14
        const room = scene.layout.columnWidth + HEAD_OVERHANG
        context.fillStyle = palette.surface
        context.fillRect(x, y - 13, room, 18)
        context.textAlign = 'left'
        context.fillStyle = palette.ink
        context.font = `620 13px ${palette.font}`
        const shown = fitText(context, title, room)
        context.fillText(shown, x, y)
        const offset = title === '' ? 0 : context.measureText(shown).width + 12
        context.fillStyle = palette.thirdInk
        context.font = `480 11px ${palette.font}`
        // Half an amount would be another amount: without room for all of it there is none.
        if (offset + context.measureText(amount).width <= room) context.fillText(amount, x + offset, y)
      }
    }
  }
}

/** The text, cut with an ellipsis where it is wider than `room` pixels. */
function fitText(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text
  let length = text.length - 1
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > room) length--
  return `${text.slice(0, length)}…`
}
