// One service: how it is called, its replicas as jobs, why some do not run, and what happened to it.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { Answer } from '../../ui/Answer'
import { formatCards, formatClock, formatDuration, formatNumber, UNKNOWN } from '../../ui/format'
import { CopyButton, Empty, Fact, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import {
  fetchService,
  findReason,
  listEvents,
  makeAddress,
  type Replica,
  type Service,
  type ServiceEvent,
  writeFacts,
} from './services'

/** Requests come without an event. */
const REFRESH_MS = 5000

export function ServicePanel({ service: row }: { service: Service }) {
  const { t } = useTranslation('services')
  const found = useQuery({
    queryKey: ['services', row.id],
    queryFn: () => fetchService(row.id),
    refetchInterval: REFRESH_MS,
  })
  const service = found.data ?? row
  return (
    <>
      <Panel title={service.name} hint={<ServerText text={service.explain} />}>
        <Answer query={found}>
          <Facts service={service} />
        </Answer>
      </Panel>
      <Panel title={t('replicasTitle')} hint={t('replicasHint')}>
        <Replicas replicas={found.data?.replicas} />
      </Panel>
      <Events id={row.id} />
    </>
  )
}

function Facts({ service }: { service: Service }) {
  const { t } = useTranslation('services')
  const address = makeAddress(service, location.origin)
  const { rule } = service
  const unit =
    rule.measure === 'gpu' ? t('loadGpu', { load: formatNumber(service.load, 1) }) : formatNumber(service.load, 1)
  return (
    <dl className="facts left">
      <Fact name={t('address')}>
        <span className="row services-address">
          <code className="mono">{address}</code>
          <CopyButton text={address} label={t('copyAddress', { name: service.name })} />
        </span>
        <span className="small sub">{t('addressHint', { tenant: service.tenant })}</span>
      </Fact>
      <Fact name={t('template')}>{service.template ?? UNKNOWN}</Fact>
      {(service.command ?? []).length > 0 && (
        <Fact name={t('command')}>
          <code className="mono word">{service.command?.join(' ')}</code>
        </Fact>
      )}
      <Fact name={t(`load.${rule.measure}`)}>{service.load === null ? UNKNOWN : unit}</Fact>
      <Fact name={t('check')}>
        {rule.check_path ? <code className="mono word">{rule.check_path}</code> : t('checkConnects')}
        {', '}
        {t('checkEvery', { time: formatDuration(rule.check_seconds) })}
      </Fact>
      <Fact name={t('holds')}>{t('cards', { cards: formatCards(service.gpu_milli, 2) })}</Fact>
      <Fact name={t('scaledAt')}>{formatClock(service.scaled_ns)}</Fact>
    </dl>
  )
}

function Replicas({ replicas }: { replicas: readonly Replica[] | undefined }) {
  const { t } = useTranslation('services')
  const columns: Column<Replica>[] = [
    { title: t('number'), right: true, cell: (replica) => replica.number },
    {
      title: t('state'),
      cell: (replica) => <State state={replica.state === 'wanted' ? 'waiting' : replica.state} />,
    },
    {
      title: t('job'),
      cell: (replica) =>
        replica.job === null ? (
          UNKNOWN
        ) : (
          <Link className="link word" to={'/jobs/$job' as never} params={{ job: replica.job } as never}>
            {replica.job}
          </Link>
        ),
    },
    {
      title: t('jobState'),
      minor: true,
      cell: (replica) => (replica.job_state === null ? UNKNOWN : <State state={replica.job_state} />),
    },
    { title: t('port'), right: true, minor: true, cell: (replica) => <span className="num">{replica.port}</span> },
    { title: t('underWay'), right: true, cell: (replica) => formatNumber(replica.requests) },
    { title: t('readySince'), right: true, minor: true, cell: (replica) => formatClock(replica.ready_ns) },
    {
      title: t('why'),
      cell: (replica) => (
        <span className="word">
          <ServerText text={replica.reason ?? ''} />
        </span>
      ),
    },
  ]
  if (replicas === undefined) return null
  if (replicas.length === 0) return <Empty>{t('noReplicas')}</Empty>
  return (
    <Table label={t('replicasTitle')} columns={columns} rows={replicas} rowKey={(replica) => String(replica.number)} />
  )
}

function Events({ id }: { id: string }) {
  const { t } = useTranslation('services')
  const found = useQuery({ queryKey: ['services', id, 'events'], queryFn: () => listEvents(id) })
  const events = found.data ?? []
  const columns: Column<ServiceEvent>[] = [
    { title: t('at'), cell: (event) => <span className="nowrap">{formatClock(event.at_ns)}</span> },
    { title: t('event'), cell: (event) => t(`kinds.${event.kind}`, { defaultValue: event.kind }) },
    {
      title: t('facts'),
      cell: (event) => (
        <span className="word">
          <span lang="en">{writeFacts(event)}</span>
          {findReason(event) !== '' && (
            <div className="small sub">
              <ServerText text={findReason(event)} />
            </div>
          )}
        </span>
      ),
    },
  ]
  return (
    <Panel title={t('events')}>
      <Answer query={found}>
        {found.isSuccess && events.length === 0 && <Empty>{t('noEvents')}</Empty>}
        {events.length > 0 && (
          <Table label={t('events')} columns={columns} rows={events} rowKey={(event) => String(event.seq)} />
        )}
      </Answer>
    </Panel>
  )
}
