/** A span of time that a pointer or keys choose on the axis. Pure. */
import type { TimeAxis } from '../queue/axis'

export interface TimeSpan {
  readonly fromMs: number
  readonly toMs: number
}

const HOUR_MS = 3_600_000
/** Steps of a span before anything is chosen. */
const FIRST_STEPS = 4
/** Steps of the keys Page Up and Page Down. */
const PAGE_STEPS = 6

/** The finest time that can be chosen on an axis of so many hours. */
export function findStep(hours: number): number {
  if (hours <= 24) return HOUR_MS / 2
  if (hours <= 72) return HOUR_MS
  return hours <= 168 ? 2 * HOUR_MS : 12 * HOUR_MS
}

/** The first instant that can be chosen: nothing begins in the past. */
export const findEarliest = (axis: TimeAxis, stepMs: number): number => Math.ceil(axis.nowMs / stepMs) * stepMs

/** A span to begin with. */
export function makeSpan(axis: TimeAxis, stepMs: number): TimeSpan {
  const fromMs = findEarliest(axis, stepMs)
  return { fromMs, toMs: fromMs + FIRST_STEPS * stepMs }
}

/** The instant at a part of the width of the axis, 0 to 1, at a step and not in the past. */
export function snapInstant(axis: TimeAxis, part: number, stepMs: number): number {
  const atMs = axis.startMs + Math.min(1, Math.max(0, part)) * (axis.endMs - axis.startMs)
  const lastMs = Math.floor(axis.endMs / stepMs) * stepMs
  return Math.min(lastMs, Math.max(findEarliest(axis, stepMs), Math.round(atMs / stepMs) * stepMs))
}

/** From where the pointer went down to where it is, whichever comes first; a step at least. */
export function spanBetween(downMs: number, nowMs: number, stepMs: number): TimeSpan {
  const fromMs = Math.min(downMs, nowMs)
  return { fromMs, toMs: Math.max(downMs, nowMs, fromMs + stepMs) }
}

/** Steps by which a key moves an end of a span; null: it moves none. */
export function findKeySteps(key: string): number | null {
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowDown: -1,
    ArrowRight: 1,
    ArrowUp: 1,
    PageDown: -PAGE_STEPS,
    PageUp: PAGE_STEPS,
  }
  return steps[key] ?? null
}

/** Move the beginning, and the end with it, or the end alone; on the axis and a step long at least. */
export function moveSpan(span: TimeSpan, end: 'from' | 'to', steps: number, axis: TimeAxis, stepMs: number): TimeSpan {
  const lastMs = Math.floor(axis.endMs / stepMs) * stepMs
  if (end === 'to') {
    return { ...span, toMs: Math.min(lastMs, Math.max(span.fromMs + stepMs, span.toMs + steps * stepMs)) }
  }
  const lengthMs = span.toMs - span.fromMs
  const fromMs = Math.min(lastMs - lengthMs, Math.max(findEarliest(axis, stepMs), span.fromMs + steps * stepMs))
  return { fromMs, toMs: fromMs + lengthMs }
}
