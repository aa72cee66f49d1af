// The lane on which a new reservation is drawn: with a pointer from end to end, or with keys at either end.
import { Button } from '@mantine/core'
import { type KeyboardEvent, type PointerEvent, useRef } from 'react'
import { useTranslation } from 'react-i18next'
import { formatClock } from '../../ui/format'
import { placeOnAxis, placeSpan, type TimeAxis } from '../queue/axis'
import { findEarliest, findKeySteps, findStep, moveSpan, snapInstant, spanBetween, type TimeSpan } from './timeSpan'

interface DraftLaneProps {
  readonly axis: TimeAxis
  readonly hours: number
  readonly span: TimeSpan
  /** Whether the span meets a reservation. */
  readonly meets: boolean
  change(span: TimeSpan): void
  /** Go on with the span that is drawn. */
  reserve(span: TimeSpan): void
}

export function DraftLane({ axis, hours, span, meets, change, reserve }: DraftLaneProps) {
  const { t } = useTranslation('reservations')
  const downMs = useRef<number | null>(null)
  const stepMs = findStep(hours)
  const findInstant = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect()
    return snapInstant(axis, (event.clientX - box.left) / box.width, stepMs)
  }
  const begin = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button !== 0) return
    event.currentTarget.setPointerCapture(event.pointerId)
    downMs.current = findInstant(event)
    change(spanBetween(downMs.current, downMs.current, stepMs))
  }
  const follow = (event: PointerEvent<HTMLDivElement>) => {
    if (downMs.current !== null) change(spanBetween(downMs.current, findInstant(event), stepMs))
  }
  const end = (event: PointerEvent<HTMLDivElement>) => {
    if (downMs.current === null) return
    const drawn = spanBetween(downMs.current, findInstant(event), stepMs)
    downMs.current = null
    change(drawn)
    reserve(drawn)
  }
  const press = (which: 'from' | 'to') => (event: KeyboardEvent) => {
    const steps = findKeySteps(event.key)
    if (event.key === 'Enter') reserve(span)
    else if (steps !== null) change(moveSpan(span, which, steps, axis, stepMs))
    else return
    event.preventDefault()
  }
  const place = placeSpan(axis, span.fromMs, span.toMs)
  const thumb = (which: 'from' | 'to', atMs: number) => (
    <span
      role="slider"
      tabIndex={0}
      className={`resv-thumb ${which}`}
      style={{ left: `${placeOnAxis(axis, atMs)}%` }}
      aria-label={t(which === 'from' ? 'drawBegin' : 'drawEnd')}
      aria-valuemin={findEarliest(axis, stepMs) / 1000}
      aria-valuemax={axis.endMs / 1000}
      aria-valuenow={atMs / 1000}
      aria-valuetext={formatClock(atMs * 1e6)}
      onKeyDown={press(which)}
    />
  )
  return (
    <div className="resv-row">
      <div className="resv-name row tight">
        <Button size="compact-xs" variant="default" onClick={() => reserve(span)}>
          {t('reserveThis')}
        </Button>
      </div>
      <div
        className="resv-lane draft"
        onPointerDown={begin}
        onPointerMove={follow}
        onPointerUp={end}
        onPointerCancel={() => {
          downMs.current = null
        }}
      >
        {place && (
          <i
            className={meets ? 'meets' : undefined}
            style={{ left: `${place.left}%`, width: `${place.width}%` }}
            aria-hidden
          />
        )}
        {thumb('from', span.fromMs)}
        {thumb('to', span.toMs)}
      </div>
    </div>
  )
}
