// What a network may carry and have: bandwidth in force, and the tenant's quota of network parts.
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { apiPath } from '../../api/lists'
import { Answer } from '../../ui/Answer'
import { formatNumber } from '../../ui/format'
import { Empty, Fact } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { type Limits as Found, type Network, type NetworkQuota, networkPath, toMbit } from './networks'

type Limited = Found['states'][number]

export function Limits({ network }: { network: Network }) {
  const { t } = useTranslation('networks')
  const limits = useQuery({
    queryKey: ['networks', network.id, 'limits'],
    queryFn: () => request<Found>(networkPath(network, 'limits')),
  })
  const quota = useQuery({
    queryKey: ['networks', network.tenant, 'quota'],
    queryFn: () => request<NetworkQuota[]>(apiPath('tenants', network.tenant, 'network-quota')),
  })
  const rate = (kbit: number | null | undefined) =>
    kbit == null ? t('noLimit') : t('mbit', { rate: formatNumber(toMbit(kbit), 1) })
  const both = (cap: { in_kbit?: number | null; out_kbit?: number | null }) =>
    t('inOut', { in: rate(cap.in_kbit), out: rate(cap.out_kbit) })
  const direction = (part: Limited['inward']) => (
    <span className="row tight wrap">
      {rate(part.kbit)} {part.state !== 'none' && <State state={part.state} />}
      <span className="small sub">
        <ServerText text={part.reason ?? ''} />
      </span>
    </span>
  )
  const columns: Column<Limited>[] = [
    {
      title: t('subject'),
      cell: (row) => (
        <>
          <span className="strong">{row.subject === 'gateway' ? t('gateway') : row.name}</span>{' '}
          <span className="mono sub">{row.address}</span>
        </>
      ),
    },
    { title: t('inward'), cell: (row) => direction(row.inward) },
    { title: t('outward'), cell: (row) => direction(row.outward) },
  ]
  const quotaColumns: Column<NetworkQuota>[] = [
    { title: t('part'), cell: (row) => t(`quota.${row.kind}`, { defaultValue: row.kind }) },
    { title: t('has'), right: true, cell: (row) => formatNumber(row.used) },
    { title: t('atMost'), right: true, cell: (row) => (row.most === null ? t('noLimit') : formatNumber(row.most)) },
  ]
  return (
    <div className="grid g11">
      <Answer query={limits}>
        {limits.data && (
          <div>
            <dl className="facts left">
              <Fact name={t('portCap')}>{both(limits.data.port_cap)}</Fact>
              <Fact name={t('gatewayCap')}>{both(limits.data.gateway_cap)}</Fact>
            </dl>
            {limits.data.states.length === 0 ? (
              <Empty>{t('noLimited')}</Empty>
            ) : (
              <Table
                label={t('limits')}
                columns={columns}
                rows={limits.data.states}
                rowKey={(row) => `${row.subject} ${row.name} ${row.address}`}
              />
            )}
          </div>
        )}
      </Answer>
      <Answer query={quota}>
        {quota.data && (
          <Table
            label={t('tenantQuota', { tenant: network.tenant })}
            columns={quotaColumns}
            rows={quota.data}
            rowKey={(row) => row.kind}
          />
        )}
      </Answer>
    </div>
  )
}
