// Reservations on one axis of time, a lane each; the times of a repetition stand in one lane.
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { findMark, styleMark } from '../../theme/marks'
import { findLocale, formatClock, formatDuration } from '../../ui/format'
import { Scroll } from '../../ui/Scroll'
import { Swatch } from '../../ui/Swatch'
import { listTicks, makeAxis, placeOnAxis, placeSpan } from '../queue/axis'
import { DraftLane } from './DraftLane'
import { findOverlaps, listTimes, type Reservation } from './reservations'
import { findStep, makeSpan, type TimeSpan } from './timeSpan'

interface LanesProps {
  readonly reservations: readonly Reservation[]
  readonly hours: number
  /** Reserve a span that was drawn; without it no lane is drawn on. */
  reserve?(span: TimeSpan): void
}

const HOUR_MS = 3_600_000
/** From here on the axis names days. */
const DAYS_FROM_HOURS = 72
const MOST_TICKS = 10

export function Lanes({ reservations, hours, reserve }: LanesProps) {
  const { t } = useTranslation('reservations')
  const [now] = useState(Date.now)
  const [drawn, setDrawn] = useState<TimeSpan | null>(null)
  const axis = makeAxis(now, hours)
  const meets = drawn === null ? [] : findOverlaps(toCalendar(drawn), reservations)
  // Over days the midnights alone are named.
  const all = listTicks(axis).filter((at) => hours < DAYS_FROM_HOURS || new Date(at).getHours() === 0)
  const step = Math.max(1, Math.ceil(all.length / MOST_TICKS))
  const ticks = all.filter((_, place) => place % step === 0)
  const name = (at: number) =>
    hours >= DAYS_FROM_HOURS
      ? new Intl.DateTimeFormat(findLocale(), { day: 'numeric', month: 'short' }).format(at)
      : formatClock(at * 1e6, new Date(at))
  const last = axis.endMs + HOUR_MS
  const lanes = (
    <Scroll label={t('lanes')}>
      <div className="resv-lanes">
        <div className="resv-name" />
        <div className="resv-axis" aria-hidden>
          {ticks.map((at) => (
            <span key={at} className="dim" style={{ left: `${placeOnAxis(axis, at)}%` }}>
              {name(at)}
            </span>
          ))}
        </div>
        {reservations.map((row) => (
          <div key={row.id} className="resv-row">
            <div className="resv-name row tight cut">
              <Swatch tenant={row.tenant} />
              <span className="cut">{row.name}</span>
            </div>
            <div className={meets.includes(row) ? 'resv-lane meets' : 'resv-lane'}>
              {listTimes(row, axis.endMs).map(({ fromMs, toMs }) => {
                const span = placeSpan(axis, fromMs, Math.min(toMs, last))
                const words = {
                  name: row.name,
                  from: formatClock(fromMs * 1e6),
                  until: Number.isFinite(toMs) ? formatClock(toMs * 1e6) : t('open'),
                }
                return (
                  span && (
                    <i
                      key={fromMs}
                      role="img"
                      aria-label={t('laneLabel', words)}
                      title={t('laneLabel', words)}
                      className={row.state === 'active' && fromMs <= now ? 'now' : undefined}
                      style={{ left: `${span.left}%`, width: `${span.width}%`, ...styleMark(findMark(row.tenant)) }}
                    />
                  )
                )
              })}
              <b className="resv-now" style={{ left: `${placeOnAxis(axis, now)}%` }} aria-hidden />
            </div>
          </div>
        ))}
        {reserve && (
          <DraftLane
            axis={axis}
            hours={hours}
            span={drawn ?? makeSpan(axis, findStep(hours))}
            meets={meets.length > 0}
            change={setDrawn}
            reserve={reserve}
          />
        )}
      </div>
    </Scroll>
  )
  return (
    <>
      {lanes}
      {reserve && (
        <p className="small sub" role="status">
          {drawn === null ? t('drawHint') : describeDrawn(drawn)}
          {meets.length > 0 && (
            <>
              {' '}
              <b>{t('overlaps', { count: meets.length })}</b>{' '}
              {meets.map((row) => `${row.tenant} / ${row.name}`).join(', ')}
            </>
          )}
        </p>
      )}
    </>
  )
}

const describeDrawn = ({ fromMs, toMs }: TimeSpan): string =>
  `${formatClock(fromMs * 1e6)} – ${formatClock(toMs * 1e6)} (${formatDuration((toMs - fromMs) / 1000)}).`

const toCalendar = ({ fromMs, toMs }: TimeSpan) => ({
  start_ns: fromMs * 1e6,
  end_ns: toMs * 1e6,
  every_seconds: null,
  until_ns: null,
})
