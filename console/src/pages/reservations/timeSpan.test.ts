import { describe, expect, it } from 'vitest'
import { makeAxis } from '../queue/axis'
import { findKeySteps, findStep, makeSpan, moveSpan, snapInstant, spanBetween } from './timeSpan'

const HOUR = 3_600_000
const NOW = Date.UTC(2026, 10, 29, 12, 20)
const at = (hours: number) => Date.UTC(2026, 10, 29, 13) + hours * HOUR
const axis = makeAxis(NOW, 72)
const step = findStep(72)

describe('a span on the axis', () => {
  it('begins at the next step, and nothing is chosen in the past', () => {
    expect(makeSpan(axis, step)).toEqual({ fromMs: at(0), toMs: at(4) })
    expect(snapInstant(axis, 0, step)).toBe(at(0))
    expect(snapInstant(axis, 5, step)).toBe(at(71))
  })

  it('lies between the two ends of a drag, in whichever direction', () => {
    expect(spanBetween(at(6), at(2), step)).toEqual({ fromMs: at(2), toMs: at(6) })
    expect(spanBetween(at(6), at(6), step)).toEqual({ fromMs: at(6), toMs: at(7) })
  })

  it('is moved and resized by keys, and stays on the axis', () => {
    const span = { fromMs: at(2), toMs: at(4) }
    expect(moveSpan(span, 'from', findKeySteps('ArrowRight') ?? 0, axis, step)).toEqual({ fromMs: at(3), toMs: at(5) })
    expect(moveSpan(span, 'to', findKeySteps('PageUp') ?? 0, axis, step)).toEqual({ fromMs: at(2), toMs: at(10) })
    expect(moveSpan(span, 'to', findKeySteps('PageDown') ?? 0, axis, step)).toEqual({ fromMs: at(2), toMs: at(3) })
    expect(moveSpan(span, 'from', -99, axis, step)).toEqual({ fromMs: at(0), toMs: at(2) })
    expect(moveSpan(span, 'from', 999, axis, step)).toEqual({ fromMs: at(69), toMs: at(71) })
    expect(findKeySteps('a')).toBeNull()
  })
})
