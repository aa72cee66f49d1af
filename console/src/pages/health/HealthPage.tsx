// Health: what is wrong with cards and nodes, since when and by what evidence; the server's checks; events.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { listAll } from '../../api/lists'
import type { PoolEvent } from '../../live/messages'
import { Answer } from '../../ui/Answer'
import { formatClock, formatNumber, UNKNOWN } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { type Card, type Check, type Fault, listFaults, listHistory, type Node, writeData } from './faults'
import { IncidentsPanel } from './IncidentsPanel'

/** Events that are read to say since when; one answer has at most 1000. */
const EVENTS_READ = 1000
const EVENTS_SHOWN = 60

async function readFaults() {
  const [failed, warned, lost, nodes, pool] = await Promise.all([
    listAll<Card>('/api/v1/devices?health=failed'),
    listAll<Card>('/api/v1/devices?health=warning'),
    listAll<Card>('/api/v1/devices?state=lost'),
    listAll<Node>('/api/v1/nodes'),
    request<{ last_event: number }>('/api/v1/pool'),
  ])
  const after = Math.max(0, pool.last_event - EVENTS_READ)
  const events = await request<PoolEvent[]>(`/api/v1/events?after=${after}&limit=${EVENTS_READ}`)
  const cards = new Map([...failed, ...warned, ...lost].map((card) => [card.uuid, card]))
  return { faults: listFaults([...cards.values()], nodes, events), history: listHistory(events), nodes: nodes.length }
}

export function HealthPage() {
  const { t } = useTranslation('health')
  const found = useQuery({ queryKey: ['health'], queryFn: readFaults })
  const checks = useQuery({ queryKey: ['health', 'checks'], queryFn: () => request<Check[]>('/api/v1/checks') })
  const faults = found.data?.faults ?? []
  const troubles = (checks.data ?? []).filter((check) => check.state !== 'ok').length
  const sentence =
    found.data && checks.data && faults.length + troubles === 0
      ? t('factWell', {
          count: found.data.nodes,
          nodes: formatNumber(found.data.nodes),
          checks: formatNumber(checks.data.length),
        })
      : found.data &&
        t('fact', { faults: formatNumber(faults.length), checks: checks.data ? formatNumber(troubles) : UNKNOWN })
  const columns: Column<Fault>[] = [
    {
      title: t('subject'),
      cell: (fault) => (
        <Link
          className="link strong word"
          to="/nodes"
          search={(fault.kind === 'card' ? { card: fault.subject } : {}) as never}
        >
          {fault.subject}
        </Link>
      ),
    },
    { title: t('state'), cell: (fault) => <State state={fault.state} /> },
    {
      title: t('cause'),
      cell: (fault) =>
        fault.cause ? <ServerText text={fault.cause} /> : t(fault.kind === 'node' ? 'noHeartbeat' : 'noCause'),
    },
    { title: t('evidence'), minor: true, cell: (fault) => <Evidence fault={fault} /> },
    {
      title: t('shares'),
      right: true,
      minor: true,
      cell: (fault) => (fault.card ? formatNumber(fault.shares) : UNKNOWN),
    },
    { title: t('since'), right: true, cell: (fault) => formatClock(fault.sinceNs) },
    { title: t('next'), minor: true, cell: (fault) => t(`next.${fault.state}`) },
  ]
  const checkColumns: Column<Check>[] = [
    { title: t('check'), cell: (check) => <span className="strong">{check.name}</span> },
    { title: t('state'), cell: (check) => <State state={check.state} /> },
    {
      title: t('finding'),
      cell: (check) => (
        <span className="word">
          <ServerText text={check.text} />
        </span>
      ),
    },
    {
      title: t('next'),
      minor: true,
      cell: (check) => (
        <span className="word">
          <ServerText text={check.next} />
        </span>
      ),
    },
  ]
  const eventColumns: Column<PoolEvent>[] = [
    { title: t('when'), cell: (event) => <span className="nowrap">{formatClock(event.at_ns)}</span> },
    { title: t('event'), cell: (event) => <span className="mono">{event.kind}</span> },
    { title: t('subject'), cell: (event) => <span className="word">{event.subject}</span> },
    {
      title: t('details'),
      minor: true,
      cell: (event) => (
        <span className="sub word" lang="en">
          {writeData(event.data)}
        </span>
      ),
    },
  ]
  const history = found.data?.history ?? []
  return (
    <Page title={t('title')} sentence={sentence} command="gpupool doctor">
      <div className="grid">
        <Panel title={t('faults')}>
          <Answer query={found}>
            {found.isSuccess && faults.length === 0 && <Empty>{t('noFaults')}</Empty>}
            {faults.length > 0 && (
              <Table label={t('faults')} columns={columns} rows={faults} rowKey={(fault) => fault.key} />
            )}
          </Answer>
        </Panel>
        <IncidentsPanel />
        <Panel title={t('checks')} hint={t('checksHint')}>
          <Answer query={checks}>
            {checks.data && (
              <Table label={t('checks')} columns={checkColumns} rows={checks.data} rowKey={(check) => check.name} />
            )}
          </Answer>
        </Panel>
        <Panel title={t('events')} hint={t('eventsHint', { count: EVENTS_READ })}>
          {found.isSuccess && history.length === 0 && <Empty>{t('noEvents')}</Empty>}
          {history.length > 0 && (
            <Table
              label={t('events')}
              columns={eventColumns}
              rows={history.slice(0, EVENTS_SHOWN)}
              rowKey={(event) => String(event.seq)}
            />
          )}
        </Panel>
      </div>
    </Page>
  )
}

/** What was measured of a card at last; unknown is `--`. */
function Evidence({ fault }: { fault: Fault }) {
  const { t } = useTranslation('health')
  if (fault.card === null) return <>{t('lastSeen', { time: formatClock(fault.sinceNs) })}</>
  const usage = fault.card.usage
  const degrees = usage?.temperature_celsius
  const watts = usage?.power_watts
  return (
    <span className="num nowrap">
      {degrees == null ? UNKNOWN : `${formatNumber(degrees)}\u00A0°C`} ·{' '}
      {watts == null ? UNKNOWN : `${formatNumber(watts)}\u00A0W`} · {t('at', { time: formatClock(usage?.at_ns) })}
    </span>
  )
}
