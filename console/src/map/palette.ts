/** The colours and patterns of the map, from the tokens of the page, as a canvas takes them. */

import { ANONYMOUS, MARKS, type Mark, type Pattern, USE_RAMP } from '../theme/marks'

/** Held and used, held and not used: the ends of the ramp. */
export const USED_COLOUR = USE_RAMP[6]
export const WASTED_COLOUR = USE_RAMP[1]
/** Mechanisms take the hues of the tenant marks in this order, each with its pattern. */
const MECHANISM_MARKS = [0, 3, 2, 4, 5, 9, 1, 8]

/** The mark of a mechanism, by its position in the columns. */
export function markOfMechanism(mechanism: number): Mark {
  return MARKS[MECHANISM_MARKS[mechanism % MECHANISM_MARKS.length]!] ?? ANONYMOUS
}

/** What a canvas may be filled with. */
export type Fill = string | CanvasPattern

export interface Palette {
  readonly surface: string
  readonly cell: string
  readonly ink: string
  readonly secondInk: string
  readonly thirdInk: string
  readonly strongLine: string
  readonly wait: string
  readonly fault: string
  readonly font: string
  /** The hue and pattern of a tenant or a mechanism. */
  mark(mark: Mark): Fill
  hatch(colour: string, leaning: 'left' | 'right'): Fill
}

/** Side of a pattern's tile in pixels. */
const PATTERN_SIZE = 6
const PATTERN_INK = 'rgba(255,255,255,.55)'

type Painter = (context: CanvasRenderingContext2D) => void

function paintDiagonals(context: CanvasRenderingContext2D, rising: boolean): void {
  context.beginPath()
  for (const offset of [-PATTERN_SIZE, 0, PATTERN_SIZE]) {
    context.moveTo(offset, rising ? PATTERN_SIZE : 0)
    context.lineTo(offset + PATTERN_SIZE, rising ? 0 : PATTERN_SIZE)
  }
  context.stroke()
}

const PATTERN_PAINTERS: Record<Pattern, Painter> = {
  solid: () => undefined,
  slash: (context) => {
    context.lineWidth = 1.3
    paintDiagonals(context, true)
  },
  dots: (context) => {
    context.fillRect(1, 1, 1.8, 1.8)
    context.fillRect(4, 4, 1.8, 1.8)
  },
  lines: (context) => {
    context.fillRect(0, 1, PATTERN_SIZE, 1.1)
    context.fillRect(0, 4, PATTERN_SIZE, 1.1)
  },
}

/**
 * Read the palette of the colour scheme that is in force.
 *
 * @param target the context that the patterns are for
 * @param ratio device pixels per pixel, so that patterns stay sharp
 */
export function readPalette(target: CanvasRenderingContext2D, ratio: number): Palette {
  const root = getComputedStyle(document.documentElement)
  const read = (name: string): string => root.getPropertyValue(name).trim()
  const patterns = new Map<string, Fill>()
  const keep = (key: string, paint: Painter): Fill => {
    const found = patterns.get(key)
    if (found !== undefined) return found
    const made = makePattern(target, ratio, paint)
    patterns.set(key, made)
    return made
  }
  return {
    surface: read('--surface'),
    cell: read('--cell'),
    ink: read('--ink'),
    secondInk: read('--ink-2'),
    thirdInk: read('--ink-3'),
    strongLine: read('--line-2'),
    wait: read('--wait'),
    fault: read('--fault'),
    font: getComputedStyle(document.body).fontFamily,
    mark: ({ hex, pattern }) => {
      if (pattern === 'solid') return hex
      return keep(`mark ${hex} ${pattern}`, (context) => {
        context.fillStyle = hex
        context.fillRect(0, 0, PATTERN_SIZE, PATTERN_SIZE)
        context.fillStyle = PATTERN_INK
        context.strokeStyle = PATTERN_INK
        PATTERN_PAINTERS[pattern](context)
      })
    },
    hatch: (colour, leaning) =>
      keep(`hatch ${colour} ${leaning}`, (context) => {
        context.strokeStyle = colour
        context.lineWidth = 1
        paintDiagonals(context, leaning === 'right')
      }),
  }
}

function makePattern(target: CanvasRenderingContext2D, ratio: number, paint: Painter): Fill {
  const scale = Math.max(1, Math.round(ratio)) * 2
  const canvas = document.createElement('canvas')
  canvas.width = PATTERN_SIZE * scale
  canvas.height = PATTERN_SIZE * scale
  const context = canvas.getContext('2d')!
  context.scale(scale, scale)
  paint(context)
  const pattern = target.createPattern(canvas, 'repeat')!
  pattern.setTransform(new DOMMatrix().scale(1 / scale))
  return pattern
}
