// The queue: what waits, in its order, with reasons and promised starts on a time axis.
import { SegmentedControl } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { countCards } from '../../map/columns'
import { Answer } from '../../ui/Answer'
import { Empty, Page, Panel } from '../../ui/Page'
import { usePoolMap } from '../map/poolMap'
import { AxisHead, LaneRow, QueueRow } from './AxisRows'
import { makeAxis, SPANS_HOURS } from './axis'
import { makeLanes, type Reservation, type RunningJob } from './lanes'
import { QueuedPanel } from './QueuedPanel'
import { keyOf, type Queued } from './queued'
import './queue.css'

/** Entries of the queue and running jobs that the page reads. */
const MOST_QUEUED = 200
const MOST_RUNNING = 200
/** Nodes below the axis. */
const MOST_LANES = 20
const MINUTE_MS = 60_000

export function QueuePage() {
  const { t } = useTranslation('queue')
  const [hours, setHours] = useState<number>(12)
  const queue = useQuery({
    queryKey: ['queue'],
    queryFn: () => request<{ items: Queued[] }>(`/api/v1/queue?limit=${MOST_QUEUED}`),
    placeholderData: keepPreviousData,
  })
  const items = queue.data?.items
  const waiting = items?.reduce((sum, item) => sum + item.count, 0) ?? 0
  const promised = items?.filter((item) => item.start_promised).length ?? 0
  const sentence = items && (waiting === 0 ? t('factEmpty') : t('fact', { waiting, promised }))
  const spans = SPANS_HOURS.map((span) => ({ value: String(span), label: t('hours', { count: span }) }))
  const choice = (
    <SegmentedControl
      size="xs"
      aria-label={t('span')}
      data={spans}
      value={String(hours)}
      onChange={(value) => setHours(Number(value))}
    />
  )
  return (
    <Page title={t('title')} sentence={sentence} actions={choice} command="gpupool queue">
      <Answer query={queue}>
        {items && items.length === 0 && (
          <Empty
            action={
              <Link to={'/request' as string} className="chip">
                {t('request')}
              </Link>
            }
          >
            {t('emptyText')}
          </Empty>
        )}
        {items && <Timeline items={items} hours={hours} />}
      </Answer>
    </Page>
  )
}

function Timeline({ items, hours }: { items: readonly Queued[]; hours: number }) {
  const { t } = useTranslation('queue')
  const small = useMediaQuery('(max-width: 760px)', false, { getInitialValueInEffect: false })
  const [chosen, setChosen] = useState<string | null>(null)
  const axis = makeAxis(useNow(), hours)
  const lanes = useLanes()
  const selected = items.find((item) => keyOf(item) === chosen) ?? items[0] ?? null
  return (
    <div className={small ? 'grid' : 'grid queue-with-panel'}>
      <Panel flush>
        <div className="row wrap small sub queue-bar">
          <h2>{t('inOrder')}</h2>
          <span className="grow" />
          <span className="row">
            <i className="queue-waits" aria-hidden />
            {t('waits')}
          </span>
          <span className="row">
            <i className="queue-sample queue-promised" aria-hidden />
            {t('promised')}
          </span>
          <span className="row">
            <i className="queue-sample queue-estimated" aria-hidden />
            {t('estimated')}
          </span>
        </div>
        <AxisHead axis={axis} />
        {items.map((item) => (
          <QueueRow
            key={keyOf(item)}
            axis={axis}
            item={item}
            chosen={item === selected}
            onChoose={() => setChosen(keyOf(item))}
          />
        ))}
        <div className="row wrap small queue-bar">
          <h2>{t('held')}</h2>
          <span className="sub">{t('heldHint')}</span>
        </div>
        {lanes.length === 0 && <div className="small sub queue-bar">{t('noLanes')}</div>}
        {lanes.map((lane) => (
          <LaneRow key={lane.name} axis={axis} lane={lane} />
        ))}
      </Panel>
      {selected && (
        <div className={small ? '' : 'queue-panel'}>
          <QueuedPanel item={selected} />
        </div>
      )}
    </div>
  )
}

function useLanes() {
  const jobs = useQuery({
    queryKey: ['jobs', 'running', MOST_RUNNING],
    queryFn: () => request<{ items: RunningJob[] }>(`/api/v1/jobs?state=running&limit=${MOST_RUNNING}`),
  })
  const reservations = useQuery({
    queryKey: ['reservations'],
    queryFn: () => request<{ items: Reservation[] }>('/api/v1/reservations'),
  })
  const columns = usePoolMap().data
  const cards = useMemo(() => (columns ? countCards(columns) : new Map<string, number>()), [columns])
  return useMemo(
    () => makeLanes(jobs.data?.items ?? [], reservations.data?.items ?? [], cards, MOST_LANES),
    [jobs.data, reservations.data, cards],
  )
}

/** The time of day, that of the last full minute: the axis moves once a minute. */
function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE_MS)
    return () => clearInterval(timer)
  }, [])
  return now
}
