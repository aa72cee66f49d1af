/** The time axis of the queue: where an instant stands, and which hours are named. */

export interface TimeAxis {
  readonly nowMs: number
  readonly startMs: number
  readonly endMs: number
}

const HOUR_MS = 3_600_000
export const SPANS_HOURS = [6, 12, 24, 72] as const

/** An axis that shows so many hours ahead, and a sixth of it behind. */
export function makeAxis(nowMs: number, hours: number): TimeAxis {
  return { nowMs, startMs: nowMs - (hours * HOUR_MS) / 6, endMs: nowMs + hours * HOUR_MS }
}

/** Where an instant stands, in per cent of the axis; what is outside stands at its end. */
export function placeOnAxis(axis: TimeAxis, atMs: number): number {
  const inside = Math.max(axis.startMs, Math.min(axis.endMs, atMs))
  return ((inside - axis.startMs) / (axis.endMs - axis.startMs)) * 100
}

export interface Span {
  readonly left: number
  readonly width: number
}

/** A span of time on the axis; null where no part of it is on the axis. */
export function placeSpan(axis: TimeAxis, fromMs: number, toMs: number): Span | null {
  if (toMs <= axis.startMs || fromMs >= axis.endMs || toMs <= fromMs) return null
  const left = placeOnAxis(axis, fromMs)
  return { left, width: placeOnAxis(axis, toMs) - left }
}

/** The full hours to name: about eight, whatever the span, in the reader's time zone. */
export function listTicks(axis: TimeAxis): number[] {
  const hours = (axis.endMs - axis.startMs) / HOUR_MS
  const step = [1, 2, 3, 6, 12, 24].find((each) => hours / each <= 9) ?? 24
  const first = new Date(axis.startMs)
  first.setMinutes(0, 0, 0)
  const ticks: number[] = []
  for (let at = first.getTime(); at < axis.endMs; at += HOUR_MS) {
    if (at >= axis.startMs && new Date(at).getHours() % step === 0) ticks.push(at)
  }
  return ticks
}
