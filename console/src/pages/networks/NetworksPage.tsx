// Networks: their members, which jobs reach each other, and the state of the engine.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { listAll } from '../../api/lists'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatClock, formatNumber, UNKNOWN } from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { Tenant } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { NetworkDetails } from './NetworkDetails'
import { NetworkDialog } from './NetworkDialog'
import { type Engine, keyOf, type Network, type Pair, sumAddresses } from './networks'

export function NetworksPage() {
  const { t } = useTranslation('networks')
  const session = useSession().data
  const client = useQueryClient()
  const [chosen, setChosen] = useState<string | null>(null)
  const [isCreating, setCreating] = useState(false)
  const networks = useQuery({
    queryKey: ['networks'],
    queryFn: () => listAll<Network>('/api/v1/networks'),
  })
  const engine = useQuery({
    queryKey: ['networks', 'engine'],
    queryFn: () => request<Engine>('/api/v1/network-engine'),
  })
  const mayChange = session?.permissions.includes('manage-tenant') ?? false
  const rows = networks.data ?? []
  const selected = rows.find((row) => keyOf(row) === chosen) ?? rows[0]
  const columns: Column<Network>[] = [
    {
      title: t('name'),
      cell: (row) => (
        <button
          type="button"
          className="group-name link strong"
          aria-pressed={row === selected}
          onClick={() => setChosen(keyOf(row))}
        >
          {row.name}
        </button>
      ),
    },
    { title: t('tenant'), cell: (row) => <Tenant name={row.tenant} /> },
    {
      title: t('prefixes'),
      cell: (row) => <span className="mono">{row.subnets.map((each) => each.cidr).join(', ')}</span>,
    },
    { title: t('jobs'), right: true, cell: (row) => formatNumber(row.ports?.length ?? 0) },
    { title: t('freeAddresses'), right: true, minor: true, cell: (row) => formatNumber(sumAddresses(row).free) },
    {
      title: t('gateway'),
      minor: true,
      cell: (row) => (row.gateway ? <State state={row.gateway.state} /> : t('closed')),
    },
  ]
  const create = (
    <Button size="xs" onClick={() => setCreating(true)}>
      {t('newNetwork')}
    </Button>
  )
  const jobs = rows.reduce((sum, row) => sum + (row.ports?.length ?? 0), 0)
  const sentence = networks.data && t('fact', { count: rows.length, jobs: formatNumber(jobs) })
  return (
    <Page
      title={t('title')}
      sentence={sentence}
      actions={mayChange && rows.length > 0 && create}
      command="gpupool network list"
    >
      <div className="grid">
        <EnginePanel engine={engine} isPoolAdmin={session?.permissions.includes('manage-pool') ?? false} />
        <Answer query={networks}>
          {networks.isSuccess && rows.length === 0 && (
            <Panel>
              <Empty action={mayChange && create}>{t('none')}</Empty>
            </Panel>
          )}
          {rows.length > 0 && (
            <Panel title={t('networks')}>
              <Table label={t('networks')} columns={columns} rows={rows} rowKey={keyOf} />
            </Panel>
          )}
          {selected && <NetworkDetails key={keyOf(selected)} network={selected} mayChange={mayChange} />}
        </Answer>
      </div>
      {isCreating && (
        <NetworkDialog
          onDone={(made) => {
            setCreating(false)
            setChosen(keyOf(made))
            void client.invalidateQueries({ queryKey: ['networks'] })
          }}
          onClose={() => setCreating(false)}
        />
      )}
    </Page>
  )
}

interface EnginePanelProps {
  readonly engine: { readonly data: Engine | undefined; readonly isError: boolean; readonly error: unknown }
  readonly isPoolAdmin: boolean
}

function EnginePanel({ engine, isPoolAdmin }: EnginePanelProps) {
  const { t } = useTranslation('networks')
  const pair = useQuery({
    queryKey: ['networks', 'gateways'],
    queryFn: () => request<Pair>('/api/v1/network-gateways'),
    enabled: engine.data?.gateways != null,
  })
  const found = engine.data
  const machines = pair.data?.machines ?? found?.gateways?.machines ?? []
  return (
    <Answer query={engine}>
      {found && (
        <Panel title={t('engine')} right={<State state={found.state} />}>
          {found.state === 'off' && (
            <p className="small sub">
              {t(isPoolAdmin ? 'engineOffAdmin' : 'engineOff')} <code className="mono">gpupool network enable</code>
            </p>
          )}
          {found.reason && (
            <p className="small">
              <ServerText text={found.reason} />
            </p>
          )}
          {found.state !== 'off' && (
            <dl className="facts left">
              <Fact name={t('centre')}>{found.node ?? UNKNOWN}</Fact>
              <Fact name={t('machines')}>
                {t('machinesReady', {
                  ready: formatNumber((found.machines ?? []).filter((machine) => machine.state === 'ready').length),
                  all: formatNumber((found.machines ?? []).length),
                })}
              </Fact>
              {pair.data && (
                <Fact name={t('gateways')}>
                  {pair.data.active ?? UNKNOWN} {t('since', { time: formatClock(pair.data.active_since_ns) })}
                </Fact>
              )}
            </dl>
          )}
          {machines.length > 0 && (
            <ul className="small hints">
              {machines.map((machine) => (
                <li key={machine.node}>
                  {machine.node} <State state={machine.state} />{' '}
                  <span className="sub">
                    <ServerText text={machine.reason ?? ''} />
                  </span>
                </li>
              ))}
            </ul>
          )}
        </Panel>
      )}
    </Answer>
  )
}
