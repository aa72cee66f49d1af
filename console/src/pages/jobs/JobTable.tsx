// The table of jobs: only the rows that are seen are in the document, whatever the list's length.

import { IconChevronDown, IconChevronRight } from '@tabler/icons-react'
import { Link, useNavigate } from '@tanstack/react-router'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, useEffect, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Job } from '../../api/jobs'
import { useServerWords } from '../../app/serverWords'
import { formatClock, formatDuration, formatShare, secondsBetween, UNKNOWN } from '../../ui/format'
import { ShareBar, Tenant, Use } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { type JobRow, nameGroup } from './rows'

const ROW_PIXELS = 44
const CARD_PIXELS = 92
/** Rows before the last one at which the next page is asked for. */
const AHEAD = 30
const STEPS: Record<string, number> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }
const COLUMNS = [
  { key: 'job', sort: 'name' },
  { key: 'state', sort: null },
  { key: 'tenant', sort: null },
  { key: 'share', sort: '-gpu' },
  { key: 'use', sort: null },
  { key: 'submitted', sort: '-submitted' },
  { key: 'time', sort: '-started' },
  { key: 'where', sort: null },
] as const

interface Props {
  rows: readonly JobRow[]
  isSmall: boolean
  sort: string
  setSort: (sort: string) => void
  toggle: (group: string) => void
  /** The end of what was loaded comes near. */
  onEnd: () => void
}

export function JobTable(props: Props) {
  const { t } = useTranslation('jobs')
  const { rows, isSmall, onEnd } = props
  const navigate = useNavigate()
  const [cursor, setCursor] = useState(-1)
  const box = useRef<HTMLDivElement>(null)
  const view = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => (isSmall ? CARD_PIXELS : ROW_PIXELS),
    overscan: 8,
  })
  const items = view.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (rows.length > 0 && last >= rows.length - AHEAD) onEnd()
  }, [last, rows.length, onEnd])
  // A row that left the list, or a list that became shorter.
  const chosen = Math.min(cursor, rows.length - 1)
  const open = (row: JobRow) => {
    if (row.kind === 'group' && row.group !== null) props.toggle(row.group)
    else void navigate({ to: '/jobs/$job', params: { job: row.job.id } })
  }
  const onKey = (event: KeyboardEvent) => {
    const step = STEPS[event.key]
    const row = rows[chosen]
    if (step !== undefined) {
      event.preventDefault()
      const next = Math.max(0, Math.min(rows.length - 1, chosen + step))
      setCursor(next)
      view.scrollToIndex(next)
    } else if (event.key === 'Enter' && row !== undefined && event.target === box.current) open(row)
  }
  const chosenRow = rows[chosen]
  return (
    <>
      {/* biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useAriaPropsSupportedByRole: table or list, by width. */}
      <div
        id="job-rows"
        ref={box}
        className="rows"
        role={isSmall ? 'list' : 'table'}
        aria-label={t('menu')}
        aria-rowcount={isSmall ? undefined : rows.length + 1}
        tabIndex={0}
        onKeyDown={onKey}
      >
        {!isSmall && <Header sort={props.sort} setSort={props.setSort} />}
        <div role={isSmall ? 'presentation' : 'rowgroup'} className="rows-body" style={{ height: view.getTotalSize() }}>
          {items.map((item) => {
            const row = rows[item.index]
            if (row === undefined) return null
            const frame = {
              className: item.index === chosen ? 'job-row chosen' : 'job-row',
              style: { transform: `translateY(${item.start}px)`, height: item.size },
            }
            return isSmall ? (
              <div key={item.key} role="listitem" {...frame}>
                <CardCells row={row} toggle={props.toggle} />
              </div>
            ) : (
              <div key={item.key} role="row" aria-rowindex={item.index + 2} {...frame}>
                <RowCells row={row} toggle={props.toggle} />
              </div>
            )
          })}
        </div>
      </div>
      <span className="sr" aria-live="polite">
        {chosenRow && `${chosenRow.job.name}, ${t(`shell:state.${chosenRow.job.state}`)}`}
      </span>
    </>
  )
}

function Header(props: { sort: string; setSort: (sort: string) => void }) {
  const { t } = useTranslation('jobs')
  return (
    <div role="rowgroup" className="rows-head">
      <div role="row" className="job-row small dim">
        {COLUMNS.map((column) => {
          if (column.sort === null) {
            return (
              <span role="columnheader" key={column.key}>
                {t(`column.${column.key}`)}
              </span>
            )
          }
          const name = column.sort.replace('-', '')
          const isSorted = props.sort.replace('-', '') === name
          const isDown = props.sort.startsWith('-')
          const next = isSorted ? (isDown ? name : `-${name}`) : column.sort
          const order = isSorted ? (isDown ? 'descending' : 'ascending') : 'none'
          return (
            <span role="columnheader" key={column.key} aria-sort={order}>
              <button type="button" className="sort" onClick={() => props.setSort(next)}>
                {t(`column.${column.key}`)}
                {isSorted && <span aria-hidden> {isDown ? '↓' : '↑'}</span>}
              </button>
            </span>
          )
        })}
      </div>
    </div>
  )
}

interface CellProps {
  row: JobRow
  toggle: (group: string) => void
}

function RowCells({ row, toggle }: CellProps) {
  const { job } = row
  const why = useWhy(row)
  return (
    <>
      <span role="cell" className={row.isMember ? 'two cut member' : 'two cut'}>
        <Name row={row} toggle={toggle} />
        <span className="dim small cut">{job.project}</span>
      </span>
      <span role="cell" className="cut">
        <States row={row} />
      </span>
      <span role="cell" className="cut">
        <Tenant name={job.tenant} />
      </span>
      <span role="cell" className="row cut">
        <Glyph job={job} />
        <span className="two cut">
          <span className="num nowrap">{formatShare(job.gpu_milli, job.memory_bytes, job.count)}</span>
          <span className="dim small cut">{findModel(job)}</span>
        </span>
      </span>
      <span role="cell">
        {row.kind === 'group' ? <span className="dim">{UNKNOWN}</span> : <Use ratio={findUse(job)} />}
      </span>
      <span role="cell" className="num sub nowrap">
        {formatClock(job.submitted_ns)}
      </span>
      <span role="cell" className="num sub nowrap">
        {findTime(job)}
      </span>
      <span role="cell" className="cut sub" title={why}>
        {why}
      </span>
    </>
  )
}

function CardCells({ row, toggle }: CellProps) {
  const { job } = row
  return (
    <>
      <div className="row">
        <span className="grow cut">
          <Name row={row} toggle={toggle} />
        </span>
        <States row={row} />
      </div>
      <div className="row small sub">
        <Glyph job={job} />
        <span className="nowrap">
          {formatShare(job.gpu_milli, job.memory_bytes, job.count)} {findModel(job)}
        </span>
      </div>
      <div className="small sub cut">{useWhy(row)}</div>
    </>
  )
}

function Name({ row, toggle }: CellProps) {
  const { t } = useTranslation('jobs')
  const { job, group } = row
  if (row.kind === 'group' && group !== null) {
    const Glyph = row.isOpen ? IconChevronDown : IconChevronRight
    return (
      <button type="button" className="group-name" aria-expanded={row.isOpen} onClick={() => toggle(group)}>
        <Glyph size={14} aria-hidden />
        <span className="strong cut">{nameGroup(job)}</span>
        <span className="dim small nowrap">{t(job.array ? 'array' : 'gang')}</span>
      </button>
    )
  }
  return (
    <Link to="/jobs/$job" params={{ job: job.id }} className="link strong cut">
      {job.name}
    </Link>
  )
}

function States({ row }: { row: JobRow }) {
  const { t } = useTranslation('jobs')
  if (row.kind === 'job') return <State state={findState(row.job)} />
  const parts = [...row.states].map(([state, count]) => `${count} ${t(`shell:state.${state}`)}`)
  return (
    <span className="small cut" title={parts.join(', ')}>
      {parts.join(', ')}
    </span>
  )
}

function Glyph({ job }: { job: Job }) {
  return (
    <span className="glyph">
      <ShareBar height={12} pieces={[{ width: job.gpu_milli / 1000, tenant: job.tenant }]} />
    </span>
  )
}

/** `suspended` is shown in place of the state of its job, which is `running`. */
export function findState(job: Job): string {
  return job.suspension?.state === 'suspended' ? 'suspended' : job.state
}

const findModel = (job: Job): string => job.model ?? job.seats?.[0]?.model ?? ''

const findUse = (job: Job): number | null =>
  job.use?.share_percent === null || job.use?.share_percent === undefined ? null : job.use.share_percent / 100

function findTime(job: Job): string {
  if (job.started_ns) return formatDuration(secondsBetween(job.started_ns, job.ended_ns))
  return formatDuration(secondsBetween(job.submitted_ns, job.ended_ns))
}

/** Where a job runs, or why not yet. */
function useWhy(row: JobRow): string {
  const { t } = useTranslation('jobs')
  const translate = useServerWords()
  const { job } = row
  if (row.kind === 'group') return ''
  const reason = translate(job.reason ?? '')
  if (job.state === 'pending') {
    const start = job.start_ns
      ? `${t(job.start_promised ? 'promised' : 'expected', { time: formatClock(job.start_ns) })} · `
      : ''
    return start + (reason || t('waits'))
  }
  if (job.state === 'running' || job.state === 'starting') {
    const seats = job.seats ?? []
    if (seats.length > 1) return t('onCards', { count: seats.length, node: job.node })
    return seats[0]?.device ?? job.device ?? job.node ?? ''
  }
  return reason || (job.exit_code === null || job.exit_code === undefined ? '' : t('exit', { code: job.exit_code }))
}
