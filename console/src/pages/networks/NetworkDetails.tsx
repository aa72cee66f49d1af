// One network: its facts and acts, and its parts behind tabs.
import { Button } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { send } from '../../api/lists'
import { FormDialog } from '../../ui/FormDialog'
import { formatNumber, formatPercent, UNKNOWN } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { Sections } from '../../ui/Sections'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { Groups } from './Groups'
import { Limits } from './Limits'
import { type Network, networkPath } from './networks'
import { Outside } from './Outside'
import { Why } from './Why'

type Port = NonNullable<Network['ports']>[number]
type Subnet = Network['subnets'][number]

interface NetworkDetailsProps {
  readonly network: Network
  readonly mayChange: boolean
}

export function NetworkDetails({ network, mayChange }: NetworkDetailsProps) {
  const { t } = useTranslation('networks')
  const sections = [
    { name: 'jobs', label: t('attachments'), content: () => <Attachments network={network} /> },
    { name: 'groups', label: t('groups'), content: () => <Groups network={network} mayChange={mayChange} /> },
    { name: 'outside', label: t('outside'), content: () => <Outside network={network} /> },
    { name: 'limits', label: t('limits'), content: () => <Limits network={network} /> },
    { name: 'why', label: t('why'), content: () => <Why network={network} /> },
  ]
  return (
    <Panel title={network.name} right={mayChange && <NetworkActs network={network} />}>
      <dl className="facts left">
        <Fact name={t('domain')}>
          <span className="mono">{network.domain}</span>
        </Fact>
        <Fact name={t('gateway')}>
          {network.gateway ? (
            <>
              <State state={network.gateway.state} /> <span className="mono">{network.gateway.address ?? UNKNOWN}</span>
            </>
          ) : (
            t('closed')
          )}
        </Fact>
        <Fact name={t('default')}>{t(network.is_default ? 'yes' : 'no')}</Fact>
        <Fact name={t('mtu')}>{formatNumber(network.mtu)}</Fact>
      </dl>
      <div className="gap">
        <Sections label={network.name} sections={sections} />
      </div>
    </Panel>
  )
}

function NetworkActs({ network }: { network: Network }) {
  const { t } = useTranslation('networks')
  const client = useQueryClient()
  const [open, setOpen] = useState<'delete' | 'cut' | null>(null)
  const refresh = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['networks'] })
  }
  const change = useMutation({
    mutationFn: ({ method, part }: { method: 'PUT' | 'DELETE'; part: string }) =>
      send(method, networkPath(network, part)),
    onSuccess: refresh,
  })
  const jobs = network.ports?.length ?? 0
  return (
    <>
      <span className="acts">
        {network.gateway ? (
          <Button size="compact-xs" variant="default" onClick={() => setOpen('cut')}>
            {t('cutOff')}
          </Button>
        ) : (
          <Button
            size="compact-xs"
            variant="default"
            loading={change.isPending}
            onClick={() => change.mutate({ method: 'PUT', part: 'gateway' })}
          >
            {t('letOut')}
          </Button>
        )}
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => change.mutate({ method: network.is_default ? 'DELETE' : 'PUT', part: 'default' })}
        >
          {t(network.is_default ? 'noDefault' : 'makeDefault')}
        </Button>
        <Button size="compact-xs" variant="default" onClick={() => setOpen('delete')}>
          {t('delete')}
        </Button>
      </span>
      {change.isError && <Refusal error={change.error} />}
      {open !== null && (
        <FormDialog
          title={t(open === 'delete' ? 'deleteTitle' : 'cutTitle', { name: network.name })}
          confirm={t(open === 'delete' ? 'deleteNow' : 'cutNow')}
          danger
          act={() => send('DELETE', open === 'delete' ? networkPath(network) : networkPath(network, 'gateway'))}
          onDone={refresh}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('tenant')}>{network.tenant}</Fact>
                <Fact name={t('jobs')}>{formatNumber(jobs)}</Fact>
                <Fact name={t('prefixes')}>{network.subnets.map((each) => each.cidr).join(', ')}</Fact>
              </dl>
              <p className="small">{t(open === 'delete' ? 'deleteText' : 'cutText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </>
  )
}

function Attachments({ network }: { network: Network }) {
  const { t } = useTranslation('networks')
  const ports = network.ports ?? []
  const portColumns: Column<Port>[] = [
    {
      title: t('job'),
      cell: (port) => (
        <Link className="link strong" to="/jobs/$job" params={{ job: port.job }}>
          {port.job_name || port.job}
        </Link>
      ),
    },
    {
      title: t('address'),
      cell: (port) => <span className="mono">{[port.address, port.address6].filter(Boolean).join(', ')}</span>,
    },
    { title: t('dnsName'), minor: true, cell: (port) => <span className="mono word">{port.dns_name}</span> },
    { title: t('subnet'), minor: true, cell: (port) => port.subnet },
    { title: t('groups'), cell: (port) => (port.security_groups ?? []).join(', ') || t('noGroup') },
  ]
  const subnetColumns: Column<Subnet>[] = [
    { title: t('subnet'), cell: (subnet) => <span className="strong">{subnet.name}</span> },
    {
      title: t('prefixes'),
      cell: (subnet) => <span className="mono">{[subnet.cidr, subnet.cidr6].filter(Boolean).join(', ')}</span>,
    },
    { title: t('router'), minor: true, cell: (subnet) => <span className="mono">{subnet.gateway}</span> },
    { title: t('usedAddresses'), right: true, cell: (subnet) => formatNumber(subnet.used) },
    { title: t('freeAddresses'), right: true, cell: (subnet) => formatNumber(subnet.free) },
    {
      title: t('usedPart'),
      right: true,
      minor: true,
      cell: (subnet) => {
        const all = subnet.used + subnet.free
        return all === 0 ? UNKNOWN : formatPercent(subnet.used / all)
      },
    },
  ]
  return (
    <div className="grid">
      <Table label={t('subnets')} columns={subnetColumns} rows={network.subnets} rowKey={(subnet) => subnet.id} />
      {ports.length === 0 ? (
        <Empty>
          {t('noJobs')} <code className="mono">gpupool run --network {network.name} …</code>
        </Empty>
      ) : (
        <Table label={t('attachments')} columns={portColumns} rows={ports} rowKey={(port) => port.job} />
      )}
    </div>
  )
}
