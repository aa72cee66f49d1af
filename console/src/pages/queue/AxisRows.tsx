// The rows of the time axis: hours, waiting jobs, and what holds the cards.

import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { findMark, styleMark } from '../../theme/marks'
import { formatClock } from '../../ui/format'
import { ServerText } from '../../ui/ServerText'
import { Swatch } from '../../ui/Swatch'
import { listTicks, placeOnAxis, placeSpan, type TimeAxis } from './axis'
import type { Block, Lane } from './lanes'
import type { Queued } from './queued'

const NS_PER_MS = 1e6
const clockOf = (atMs: number) => formatClock(atMs * NS_PER_MS)

/** Per cent of the axis that the name of an hour needs beside "now". */
const NEAR_NOW = 5

export function AxisHead({ axis }: { axis: TimeAxis }) {
  const now = placeOnAxis(axis, axis.nowMs)
  const ticks = listTicks(axis).filter((tick) => Math.abs(placeOnAxis(axis, tick) - now) > NEAR_NOW)
  return (
    <div className="queue-row queue-head">
      <span />
      <div className="queue-axis small dim num">
        {ticks.map((tick, place) => (
          <span
            key={tick}
            className={place % 2 ? 'queue-tick only-l' : 'queue-tick'}
            style={{ left: `${placeOnAxis(axis, tick)}%` }}
          >
            {clockOf(tick)}
          </span>
        ))}
        <b className="queue-now-name" style={{ left: `${now}%` }}>
          {clockOf(axis.nowMs)}
        </b>
      </div>
    </div>
  )
}

function Track({ axis, children }: { axis: TimeAxis; children: ReactNode }) {
  return (
    <div className="queue-axis">
      {listTicks(axis).map((tick) => (
        <i key={tick} className="queue-grid" style={{ left: `${placeOnAxis(axis, tick)}%` }} />
      ))}
      {children}
      <i className="queue-now" style={{ left: `${placeOnAxis(axis, axis.nowMs)}%` }} />
    </div>
  )
}

interface QueueRowProps {
  readonly axis: TimeAxis
  readonly item: Queued
  readonly chosen: boolean
  onChoose(): void
}

export function QueueRow({ axis, item, chosen, onChoose }: QueueRowProps) {
  const { t } = useTranslation('queue')
  return (
    <div className={chosen ? 'queue-row queue-chosen' : 'queue-row'}>
      <button type="button" className="queue-name" aria-pressed={chosen} onClick={onChoose}>
        <span className="num dim small only-l">{item.place}</span>
        <Swatch tenant={item.tenant} />
        <span className="cut grow">
          {item.job === null ? (
            <span className="sub">{t('othersJobs', { count: item.count })}</span>
          ) : (
            <span className="strong">{item.job}</span>
          )}
        </span>
        {item.gang && <span className="small dim only-l">{t('gang')}</span>}
      </button>
      <Track axis={axis}>
        <Start axis={axis} item={item} />
      </Track>
    </div>
  )
}

function Start({ axis, item }: { axis: TimeAxis; item: Queued }) {
  const { t } = useTranslation('queue')
  const startMs = item.start_ns === null ? null : item.start_ns / NS_PER_MS
  const sinceMs = axis.nowMs - (item.waited_seconds ?? 0) * 1000
  const wait = placeSpan(axis, sinceMs, startMs ?? axis.endMs)
  return (
    <>
      {wait && item.job !== null && (
        <i className="queue-waits" style={{ left: `${wait.left}%`, width: `${wait.width}%` }} />
      )}
      {startMs === null && item.job !== null && (
        <span className="small sub queue-no-promise">
          {item.reason === null ? t('noPromise') : <ServerText text={item.reason} />}
        </span>
      )}
      {startMs !== null && startMs < axis.endMs && (
        <span
          className={item.start_promised ? 'queue-start queue-promised' : 'queue-start queue-estimated'}
          style={{ left: `${placeOnAxis(axis, startMs)}%` }}
        >
          <i className="queue-mark" style={styleMark(findMark(item.tenant))} />
          <span className="small num strong nowrap">{clockOf(startMs)}</span>
        </span>
      )}
    </>
  )
}

export function LaneRow({ axis, lane }: { axis: TimeAxis; lane: Lane }) {
  return (
    <div className="queue-row queue-lane">
      <div className="queue-name">
        <span className="num nowrap">{lane.name}</span>
        {lane.detail !== '' && <span className="small dim only-l cut grow">{lane.detail}</span>}
      </div>
      <Track axis={axis}>
        {lane.blocks.map((block) => (
          <LaneBlock key={block.fromMs} axis={axis} block={block} />
        ))}
      </Track>
    </div>
  )
}

function LaneBlock({ axis, block }: { axis: TimeAxis; block: Block }) {
  const { t } = useTranslation('queue')
  const span = placeSpan(axis, block.fromMs, block.toMs)
  if (!span) return null
  const end = Number.isFinite(block.toMs) ? clockOf(block.toMs) : t('endsUnknown')
  const label = t('laneLabel', { name: block.names.join(', '), from: clockOf(block.fromMs), to: end })
  const name = block.names.length === 1 ? block.names[0] : t('jobs', { count: block.names.length })
  const filled = `${block.height * 100}%`
  return (
    <span
      className={`queue-block queue-${block.kind}`}
      style={{ left: `${span.left}%`, width: `${span.width}%` }}
      title={label}
    >
      {block.kind === 'running' && <i className="queue-filled" style={{ height: filled }} />}
      {block.tenant !== null && <i className="queue-mark" style={styleMark(findMark(block.tenant))} />}
      <span className="small cut queue-block-name">
        {name} → {end}
      </span>
    </span>
  )
}
