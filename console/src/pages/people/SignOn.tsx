// How people sign on: identity providers, the rules from groups to rights, and what a login would get.
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock } from '../../ui/format'
import { Empty, Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { LoginForecast } from './LoginForecast'
import { type Provider, ProviderDialog } from './ProviderDialog'
import { Rules } from './Rules'
import { Act } from './Users'

type Open = { act: 'put'; provider: Provider | null } | { act: 'delete'; provider: Provider }
type Tested = components['schemas']['ProviderTestOut']

export function SignOn() {
  const { t } = useTranslation('people')
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const providers = useQuery({
    queryKey: ['people', 'providers'],
    queryFn: () => request<Provider[]>('/api/v1/sso/providers'),
  })
  const test = useMutation({
    mutationFn: (name: string) => send<Tested>('POST', apiPath('sso', 'providers', name, 'test')),
  })
  const rows = providers.data ?? []
  const names = rows.map((row) => row.name)
  const done = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['people', 'providers'] })
  }
  const columns: Column<Provider>[] = [
    { title: t('name'), cell: (row) => <span className="strong">{row.name}</span> },
    { title: t('providerKind'), cell: (row) => t(`provider.${row.kind}`) },
    {
      title: t('providerAddress'),
      cell: (row) => <span className="mono word">{row.oidc?.issuer ?? row.ldap?.url}</span>,
    },
    { title: t('secret'), minor: true, cell: (row) => t(row.has_secret ? 'secretSet' : 'secretNone') },
    { title: t('created'), right: true, minor: true, cell: (row) => formatClock(row.created_ns) },
    {
      title: <span className="sr">{t('acts')}</span>,
      right: true,
      cell: (row) => (
        <span className="acts">
          <Act label={t('test')} of={row.name} onClick={() => test.mutate(row.name)} />
          <Act label={t('change')} of={row.name} onClick={() => setOpen({ act: 'put', provider: row })} />
          <Act label={t('delete')} of={row.name} onClick={() => setOpen({ act: 'delete', provider: row })} />
        </span>
      ),
    },
  ]
  return (
    <div className="grid">
      <Panel
        title={t('providers')}
        right={
          <Button size="xs" onClick={() => setOpen({ act: 'put', provider: null })}>
            {t('newProvider')}
          </Button>
        }
      >
        <Answer query={providers}>
          {providers.isSuccess && rows.length === 0 && <Empty>{t('noProviders')}</Empty>}
          {rows.length > 0 && <Table label={t('providers')} columns={columns} rows={rows} rowKey={(row) => row.name} />}
        </Answer>
        {test.isError && <Refusal error={test.error} />}
        {test.data && (
          <div role="status" className="gap small">
            <div className="row">
              <State state={test.data.ok ? 'ok' : 'fail'} />
              <b>{test.variables}</b>
            </div>
            <ol className="hints">
              {test.data.steps.map((step) => (
                <li key={step}>
                  <ServerText text={step} />
                </li>
              ))}
            </ol>
          </div>
        )}
      </Panel>
      <Rules providers={names} />
      <LoginForecast providers={names} />
      {open?.act === 'put' && (
        <ProviderDialog provider={open.provider} names={names} onDone={done} onClose={() => setOpen(null)} />
      )}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deleteProviderTitle', { provider: open.provider.name })}
          confirm={t('deleteProviderNow')}
          danger
          act={() => send('DELETE', apiPath('sso', 'providers', open.provider.name))}
          onDone={done}
          onClose={() => setOpen(null)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('providerKind')}>{t(`provider.${open.provider.kind}`)}</Fact>
                <Fact name={t('providerAddress')}>{open.provider.oidc?.issuer ?? open.provider.ldap?.url}</Fact>
              </dl>
              <p className="small">{t('deleteProviderText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </div>
  )
}
