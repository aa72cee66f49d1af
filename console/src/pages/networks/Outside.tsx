// What leads into a network and out of it: balancers, floating IPs, port forwards, lines, peerings, routes.
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { components } from '../../api/schema'
import { Answer } from '../../ui/Answer'
import { formatNumber, UNKNOWN } from '../../ui/format'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { type Balancer, listOf, type Network } from './networks'

type Schemas = components['schemas']
type FloatingIp = Schemas['FloatingIpOut']
type Forward = Schemas['PortForwardOut']
type Line = Schemas['LineOut']
type Peering = Schemas['PeeringOut']
type Route = Schemas['RouteOut']

export function Outside({ network }: { network: Network }) {
  const { t } = useTranslation('networks')
  const mono = (text: string | null | undefined) => <span className="mono word">{text || UNKNOWN}</span>
  const because = (text: string | undefined) => (
    <span className="small sub">
      <ServerText text={text ?? ''} />
    </span>
  )
  const balancers: Column<Balancer>[] = [
    { title: t('name'), cell: (row) => <span className="strong">{row.name}</span> },
    { title: t('address'), cell: (row) => mono(row.http ? row.http.address : `${row.address}:${row.port}`) },
    { title: t('protocol'), minor: true, cell: (row) => (row.http ? 'http' : row.protocol) },
    { title: t('backends'), right: true, cell: (row) => formatNumber(row.members.length) },
    {
      title: t('state'),
      cell: (row) => (
        <>
          {row.http ? <State state={row.http.state} /> : t(row.is_checked ? 'checked' : 'notChecked')}{' '}
          {because(row.http?.reason)}
        </>
      ),
    },
  ]
  const floating: Column<FloatingIp>[] = [
    { title: t('address'), cell: (row) => mono(row.address) },
    { title: t('leadsTo'), cell: (row) => row.job ?? row.target },
    {
      title: t('state'),
      cell: (row) => (
        <>
          <State state={row.state} /> {because(row.reason)}
        </>
      ),
    },
  ]
  const forwards: Column<Forward>[] = [
    { title: t('port'), cell: (row) => mono(`${row.protocol}/${row.port}`) },
    { title: t('leadsTo'), cell: (row) => mono(`${row.target}:${row.target_port}`) },
  ]
  const lines: Column<Line>[] = [
    { title: t('peer'), cell: (row) => mono(`${row.peer} AS${row.peer_asn}`) },
    { title: 'VLAN', right: true, minor: true, cell: (row) => row.vlan },
    { title: t('learned'), right: true, cell: (row) => formatNumber(row.learned.length) },
    { title: t('refused'), right: true, minor: true, cell: (row) => formatNumber(row.refused_count ?? 0) },
    {
      title: t('state'),
      cell: (row) => (
        <>
          <State state={row.state} /> {because(row.reason)}
        </>
      ),
    },
  ]
  const peerings: Column<Peering>[] = [
    { title: t('other'), cell: (row) => [row.other_tenant, row.other_name ?? row.other].filter(Boolean).join(' / ') },
    { title: t('prefixes'), minor: true, cell: (row) => mono((row.other_prefixes ?? []).join(', ')) },
    { title: t('state'), cell: (row) => <State state={row.state} /> },
  ]
  const routes: Column<Route>[] = [
    { title: t('prefixes'), cell: (row) => mono(row.prefix) },
    { title: t('kind'), cell: (row) => t(`route.${row.kind}`) },
    { title: t('via'), minor: true, cell: (row) => (row.is_discarding ? t('discarded') : mono(row.via)) },
    {
      title: t('state'),
      cell: (row) => (
        <>
          {t(row.is_active ? 'decides' : 'decidesNot')} {because(row.reason)}
        </>
      ),
    },
  ]
  return (
    <div className="grid">
      <Part
        network={network}
        path="load-balancers"
        title={t('balancers')}
        none={t('noBalancers')}
        columns={balancers}
      />
      <Part
        network={network}
        path="floating-ips"
        title={t('floatingIps')}
        none={t('noFloatingIps')}
        columns={floating}
      />
      <Part network={network} path="port-forwards" title={t('forwards')} none={t('noForwards')} columns={forwards} />
      <Part network={network} path="lines" title={t('lines')} none={t('noLines')} columns={lines} />
      <Part network={network} path="peerings" title={t('peerings')} none={t('noPeerings')} columns={peerings} />
      <Part network={network} path="routes" title={t('routes')} none={t('noRoutes')} columns={routes} />
    </div>
  )
}

interface PartProps<Row> {
  readonly network: Network
  readonly path: string
  readonly title: string
  readonly none: string
  readonly columns: readonly Column<Row>[]
}

function Part<Row extends { id: string }>({ network, path, title, none, columns }: PartProps<Row>) {
  const found = useQuery({
    queryKey: ['networks', network.id, path],
    queryFn: () => listOf<Row>(network, path),
  })
  return (
    <section>
      <h2>{title}</h2>
      <Answer query={found}>
        {found.data?.length === 0 && <p className="small sub">{none}</p>}
        {found.data && found.data.length > 0 && (
          <Table label={title} columns={columns} rows={found.data} rowKey={(row) => row.id} />
        )}
      </Answer>
    </section>
  )
}
