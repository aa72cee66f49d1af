/** How one card is drawn: its shares to scale, its memory, what is wrong with it. */

import { ANONYMOUS, colourUse, type Mark } from '../theme/marks'
import { computeUse, conditionOf, freeMilli, isStranded, type PoolColumns, WHOLE_MILLI } from './columns'
import type { Rectangle } from './layout'
import { markOfMechanism, type Palette, USED_COLOUR, WASTED_COLOUR } from './palette'

export const COLOURINGS = ['tenant', 'use', 'waste', 'health', 'mechanism'] as const
export type Colouring = (typeof COLOURINGS)[number]

export interface TileStyle {
  readonly palette: Palette
  readonly colouring: Colouring
  /** The mark of each tenant, by its index in the columns. */
  readonly marks: readonly Mark[]
  /** The tenant of the tile's group: the shares of others are faded. */
  readonly tenant: number | null
  /** Pixels around the tile that are its own: its edge and its badge are drawn there. */
  readonly margin: number
}

/** From this height on a tile has a lane of its own for memory. */
const LEAST_HEIGHT_WITH_MEMORY = 20
/** From this width on a tile has a rounded edge and a badge. */
const LEAST_WIDTH_WITH_EDGE = 10
/** From this width on a tile prints its free share. */
const LEAST_WIDTH_WITH_TEXT = 88
const MIB = 2 ** 20
const FADED = 0.16
const MUTED = 0.34

/** Paint one card into its rectangle. The origin is the upper left corner of what is shown. */
export function paintTile(
  context: CanvasRenderingContext2D,
  columns: PoolColumns,
  card: number,
  area: Rectangle,
  style: TileStyle,
): void {
  const { width, height } = area
  const { palette, margin } = style
  context.save()
  // Patterns start at the tile's own corner: they do not jump when the map is moved.
  context.translate(area.x, area.y)
  context.fillStyle = palette.surface
  context.fillRect(-margin, -margin, width + 2 * margin, height + 2 * margin)
  context.save()
  context.beginPath()
  if (width >= LEAST_WIDTH_WITH_EDGE) context.roundRect(0, 0, width, height, 3)
  else context.rect(0, 0, width, height)
  context.clip()
  context.fillStyle = palette.cell
  context.fillRect(0, 0, width, height)
  const lane = height >= LEAST_HEIGHT_WITH_MEMORY ? Math.round(height * 0.16) : 0
  const top = height - lane - (lane > 0 ? 1 : 0)
  if (isStranded(columns, card)) {
    context.fillStyle = palette.hatch(palette.strongLine, 'right')
    context.fillRect(0, 0, width, top)
  }
  paintShares(context, columns, card, width, top, style)
  if (lane > 0) paintMemory(context, columns, card, width, top, lane, style)
  const condition = conditionOf(columns, card)
  if (condition === 'failed' || condition === 'lost') {
    context.fillStyle = palette.hatch(palette.fault, 'left')
    context.fillRect(0, 0, width, height)
  } else if (condition === 'observed') {
    context.fillStyle = palette.hatch(palette.thirdInk, 'left')
    context.fillRect(0, 0, width, height)
  }
  context.restore()
  paintText(context, columns, card, width, top, palette)
  paintEdge(context, condition, width, height, palette)
  context.restore()
}

function paintShares(
  context: CanvasRenderingContext2D,
  columns: PoolColumns,
  card: number,
  width: number,
  height: number,
  style: TileStyle,
): void {
  if (style.colouring === 'waste') {
    paintWaste(context, columns, card, width, height, style.palette)
    return
  }
  let start = 0
  for (let share = columns.shareStart[card]!; share < columns.shareStart[card + 1]!; share++) {
    const tenant = columns.shareTenant[share]!
    const extent = (columns.shareMilli[share]! / WHOLE_MILLI) * width
    context.globalAlpha = alphaOf(tenant, style)
    context.fillStyle = fillOf(columns, card, tenant, style)
    context.fillRect(start, 0, extent, height)
    context.globalAlpha = 1
    start += extent
    // Pieces carry a hairline, where there is room for one.
    if (width >= LEAST_WIDTH_WITH_EDGE) {
      context.fillStyle = style.palette.surface
      context.fillRect(start - 0.5, 0, 1, height)
    }
  }
}

function alphaOf(tenant: number, style: TileStyle): number {
  if (style.tenant !== null && style.tenant !== tenant) return FADED
  return style.colouring === 'health' ? MUTED : 1
}

function markOf(tenant: number, style: TileStyle): Mark {
  return style.marks[tenant] ?? ANONYMOUS
}

function fillOf(columns: PoolColumns, card: number, tenant: number, style: TileStyle) {
  const { palette } = style
  switch (style.colouring) {
    case 'tenant':
      return palette.mark(markOf(tenant, style))
    case 'use': {
      const use = computeUse(columns, card)
      return colourUse(use) ?? palette.hatch(palette.thirdInk, 'right')
    }
    case 'mechanism': {
      const mechanism = columns.mechanism[card]!
      return mechanism < 0 ? palette.thirdInk : palette.mark(markOfMechanism(mechanism))
    }
    default:
      return palette.thirdInk
  }
}

/** Held compute in two pieces, to scale: what is used, and what is held and not used. */
function paintWaste(
  context: CanvasRenderingContext2D,
  columns: PoolColumns,
  card: number,
  width: number,
  height: number,
  palette: Palette,
): void {
  const held = (columns.heldMilli[card]! / WHOLE_MILLI) * width
  if (held === 0) return
  const use = computeUse(columns, card)
  if (use === null) {
    context.fillStyle = palette.hatch(palette.thirdInk, 'right')
    context.fillRect(0, 0, held, height)
    return
  }
  context.fillStyle = USED_COLOUR
  context.fillRect(0, 0, held * use, height)
  context.fillStyle = WASTED_COLOUR
  context.fillRect(held * use, 0, held - held * use, height)
}

/** The memory of each share, in the order of the shares and to scale of the card's memory. */
function paintMemory(
  context: CanvasRenderingContext2D,
  columns: PoolColumns,
  card: number,
  width: number,
  top: number,
  lane: number,
  style: TileStyle,
): void {
  const { palette } = style
  context.fillStyle = palette.surface
  context.fillRect(0, top, width, 1)
  const scale = (MIB * width) / Math.max(1, columns.memoryBytes[card]!)
  let start = 0
  for (let share = columns.shareStart[card]!; share < columns.shareStart[card + 1]!; share++) {
    const tenant = columns.shareTenant[share]!
    const extent = columns.shareMib[share]! * scale
    context.globalAlpha = style.tenant !== null && style.tenant !== tenant ? FADED : 0.75
    context.fillStyle = style.colouring === 'tenant' ? markOf(tenant, style).hex : palette.thirdInk
    context.fillRect(start, top + 1, extent, lane)
    start += extent
  }
  context.globalAlpha = 1
}

function paintText(
  context: CanvasRenderingContext2D,
  columns: PoolColumns,
  card: number,
  width: number,
  height: number,
  palette: Palette,
): void {
  const free = freeMilli(columns, card)
  const room = (free / WHOLE_MILLI) * width
  if (width < LEAST_WIDTH_WITH_TEXT || room < 28) return
  context.fillStyle = palette.thirdInk
  context.font = `500 11px ${palette.font}`
  context.textAlign = 'center'
  context.fillText((free / WHOLE_MILLI).toFixed(2), width - room / 2, height / 2 + 4)
}

const BADGES: Partial<Record<string, string>> = {
  failed: '×',
  lost: '×',
  draining: '↓',
  warning: '!',
}

function paintEdge(
  context: CanvasRenderingContext2D,
  condition: string,
  width: number,
  height: number,
  palette: Palette,
): void {
  const badge = BADGES[condition]
  if (badge === undefined) return
  const colour = badge === '×' ? palette.fault : palette.wait
  context.strokeStyle = colour
  context.lineWidth = width >= LEAST_WIDTH_WITH_EDGE ? 2 : 1
  if (condition === 'warning') context.setLineDash([3, 2])
  context.strokeRect(0, 0, width, height)
  context.setLineDash([])
  if (width < 2 * LEAST_WIDTH_WITH_EDGE) return
  context.fillStyle = colour
  context.beginPath()
  context.arc(width - 4, 4, 5.5, 0, 7)
  context.fill()
  context.fillStyle = palette.surface
  context.font = `700 9px ${palette.font}`
  context.textAlign = 'center'
  context.fillText(badge, width - 4, 7.2)
}
