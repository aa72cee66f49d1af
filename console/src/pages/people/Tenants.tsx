// Tenants and their projects.
import { Button, Select, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, listAll, send } from '../../api/lists'
import type { Session } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatCards, formatClock, formatNumber } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Tenant } from '../../ui/ShareBar'
import { type Column, Table } from '../../ui/Table'
import { filterRows, may, type TenantRow } from './people'
import { Act } from './Users'

type Open = { act: 'tenant' } | { act: 'project'; tenant: string } | { act: 'delete'; tenant: TenantRow }

export function Tenants({ session }: { session: Session | undefined }) {
  const { t } = useTranslation('people')
  const client = useQueryClient()
  const [typed, setTyped] = useState('')
  const [open, setOpen] = useState<Open | null>(null)
  const tenants = useQuery({ queryKey: ['people', 'tenants'], queryFn: () => listAll<TenantRow>('/api/v1/tenants') })
  const isPoolAdmin = may(session, 'manage-pool')
  const rows = useMemo(
    () => filterRows(tenants.data ?? [], typed, (tenant) => [tenant.name, ...tenant.projects]),
    [tenants.data, typed],
  )
  const done = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['people'] })
    void client.invalidateQueries({ queryKey: ['tenants'] })
  }
  const guarantee = (tenant: TenantRow) =>
    tenant.quota.nominal_milli == null ? t('noLimit') : formatCards(tenant.quota.nominal_milli)
  const columns: Column<TenantRow>[] = [
    { title: t('name'), cell: (tenant) => <Tenant name={tenant.name} strong /> },
    { title: t('projects'), cell: (tenant) => <span className="word">{tenant.projects.join(', ')}</span> },
    { title: t('users'), right: true, cell: (tenant) => formatNumber(tenant.users) },
    { title: t('held'), right: true, minor: true, cell: (tenant) => formatCards(tenant.quota.held_milli) },
    { title: t('guarantee'), right: true, minor: true, cell: guarantee },
    { title: t('created'), right: true, minor: true, cell: (tenant) => formatClock(tenant.created_ns) },
  ]
  if (may(session, 'manage-tenant')) {
    columns.push({
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (tenant) => (
        <span className="acts">
          <Act
            label={t('newProject')}
            of={tenant.name}
            onClick={() => setOpen({ act: 'project', tenant: tenant.name })}
          />
          {isPoolAdmin && (
            <Act label={t('delete')} of={tenant.name} onClick={() => setOpen({ act: 'delete', tenant })} />
          )}
        </span>
      ),
    })
  }
  return (
    <Panel
      title={t('tenants')}
      right={
        isPoolAdmin && (
          <Button size="xs" onClick={() => setOpen({ act: 'tenant' })}>
            {t('newTenant')}
          </Button>
        )
      }
    >
      <div className="row wrap filters">
        <TextInput
          size="xs"
          data-filter
          aria-label={t('filter')}
          placeholder={t('filter')}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
        />
      </div>
      <Answer query={tenants}>
        {tenants.isSuccess && rows.length === 0 && <Empty>{t('noMatch')}</Empty>}
        {rows.length > 0 && <Table label={t('tenants')} columns={columns} rows={rows} rowKey={(row) => row.name} />}
      </Answer>
      {open?.act === 'tenant' && <NameDialog what="tenant" onDone={done} onClose={() => setOpen(null)} />}
      {open?.act === 'project' && (
        <NameDialog
          what="project"
          tenant={open.tenant}
          tenants={isPoolAdmin ? rows.map((row) => row.name) : [open.tenant]}
          onDone={done}
          onClose={() => setOpen(null)}
        />
      )}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deleteTenantTitle', { tenant: open.tenant.name })}
          confirm={t('deleteTenantNow')}
          danger
          act={() => send('DELETE', apiPath('tenants', open.tenant.name))}
          onDone={done}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('users')}>{formatNumber(open.tenant.users)}</Fact>
                <Fact name={t('projects')}>{open.tenant.projects.join(', ')}</Fact>
                <Fact name={t('held')}>{formatCards(open.tenant.quota.held_milli)}</Fact>
              </dl>
              <p className="small">{t('deleteTenantText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}

interface NameDialogProps {
  readonly what: 'tenant' | 'project'
  readonly tenant?: string
  readonly tenants?: readonly string[]
  onDone(): void
  onClose(): void
}

function NameDialog({ what, tenant: first = '', tenants = [], onDone, onClose }: NameDialogProps) {
  const { t } = useTranslation('people')
  const [name, setName] = useState('')
  const [tenant, setTenant] = useState(first)
  const path = what === 'tenant' ? apiPath('tenants') : apiPath('tenants', tenant, 'projects')
  return (
    <FormDialog
      title={t(what === 'tenant' ? 'newTenant' : 'newProject')}
      confirm={t(what === 'tenant' ? 'createTenant' : 'createProject')}
      isReady={name.trim() !== ''}
      fieldOfCode={{ 'GP-2006': 'name', 'GP-1003': 'name' }}
      act={() => send('POST', path, { name: name.trim() })}
      onDone={onDone}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <p className="small sub">{t(what === 'tenant' ? 'tenantText' : 'projectText')}</p>
          {what === 'project' && (
            <Select
              label={t('tenant')}
              allowDeselect={false}
              searchable
              data={[...tenants]}
              value={tenant}
              onChange={(value) => setTenant(value ?? tenant)}
            />
          )}
          <TextInput
            label={t('name')}
            value={name}
            error={problem('name')}
            data-autofocus
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </>
      )}
    </FormDialog>
  )
}
