// The documents of a month: its total, whether it is sealed, and its files.
import { Button, Select } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { listAll, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { Download } from '../../ui/Download'
import { FormDialog } from '../../ui/FormDialog'
import { formatAmount, formatClock, formatMoney, formatNumber, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { Tenant as TenantName } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { findBooks, toCardHours } from './books'

type Statement = components['schemas']['StatementOut']
type Seal = components['schemas']['SealOut']
type Tenant = components['schemas']['TenantOut']

type Total = Statement['totals'][number]

const FORMATS = ['xlsx', 'pdf', 'focus'] as const
const MICRO = 1e6
/** Characters of a sum that people compare. */
const SUM_SHOWN = 16

export function Documents({ month, isOver }: { month: string; isOver: boolean }) {
  const { t, i18n } = useTranslation('usage')
  const session = useSession().data
  const client = useQueryClient()
  const isPoolAdmin = session?.permissions.includes('manage-pool') ?? false
  const seesAll = ['admin', 'operator', 'auditor'].includes(session?.role ?? '')
  const [tenant, setTenant] = useState<string | null>(null)
  const [refused, setRefused] = useState<unknown>(null)
  const [isSealing, setSealing] = useState(false)
  const words = new URLSearchParams(tenant === null ? {} : { tenant })
  const statement = useQuery({
    queryKey: ['report', 'statement', month, tenant],
    queryFn: () => request<Statement>(`/api/v1/statements/${month}?${words}`),
  })
  const seals = useQuery({
    queryKey: ['report', 'seals'],
    queryFn: () => request<Seal[]>('/api/v1/seals'),
    enabled: isPoolAdmin,
  })
  const tenants = useQuery({
    queryKey: ['people', 'tenants'],
    queryFn: () => listAll<Tenant>('/api/v1/tenants'),
    enabled: seesAll,
  })
  const found = statement.data
  const seal = seals.data?.find((each) => each.month === month)
  const money = (micro: number | null | undefined) =>
    micro == null || !found?.currency ? UNKNOWN : formatMoney(micro / MICRO, found.currency)
  const pathOf = (format: string) => {
    const query = new URLSearchParams({ format, language: i18n.language === 'zh' ? 'zh' : 'en' })
    if (tenant !== null) query.set('tenant', tenant)
    return `/api/v1/documents/${month}?${query}`
  }
  const columns: Column<Total>[] = [
    { title: t('by.tenant'), cell: (row) => <TenantName name={row.tenant} strong /> },
    { title: t('hours'), right: true, cell: (row) => formatAmount(toCardHours(row.card_milliseconds), 1) },
    { title: t('usageCost'), right: true, minor: true, cell: (row) => money(row.lines_micro) },
    { title: t('entries'), right: true, minor: true, cell: (row) => money(row.adjustments_micro) },
    { title: t('taxes'), right: true, minor: true, cell: (row) => money(row.tax_micro) },
    { title: t('toPay'), right: true, cell: (row) => <span className="strong">{money(row.total_micro)}</span> },
  ]
  return (
    <Panel
      title={t('documents')}
      right={
        seesAll && (
          <Select
            size="xs"
            w={170}
            aria-label={t('documentsOf')}
            placeholder={t('wholePool')}
            clearable
            searchable
            data={(tenants.data ?? []).map((each) => each.name)}
            value={tenant}
            onChange={setTenant}
          />
        )
      }
    >
      <Answer query={statement}>
        {found && (
          <dl className="facts">
            <Fact name={t('books')}>
              <State state={findBooks(found.sealed, seal)} />
            </Fact>
            {found.sha256 !== null && (
              <Fact name={t('sum')}>
                <code className="mono" title={found.sha256}>
                  {found.sha256.slice(0, SUM_SHOWN)}…
                </code>
              </Fact>
            )}
            {seal && (
              <Fact name={t('sealedBy')}>
                {seal.sealed_by}, {formatClock(seal.sealed_ns)}
              </Fact>
            )}
            <Fact name={t('entries')}>{formatNumber(found.adjustments.length)}</Fact>
            <Fact name={t('toPay')}>{money(found.total_micro)}</Fact>
            {found.unpriced.length > 0 && <Fact name={t('unpriced')}>{found.unpriced.join(', ')}</Fact>}
          </dl>
        )}
        {found && found.totals.length > 0 && (
          <div className="gap">
            <Table label={t('documents')} columns={columns} rows={found.totals} rowKey={(row) => row.tenant} />
          </div>
        )}
      </Answer>
      <div className="row wrap gap">
        {FORMATS.map((format) => (
          <Download
            key={format}
            label={t(`file.${format}`)}
            path={pathOf(format)}
            name={`gpupool-${month}.${format === 'focus' ? 'csv' : format}`}
            onRefused={setRefused}
          />
        ))}
        {isPoolAdmin && found && !found.sealed && (
          <Button size="xs" disabled={!isOver} onClick={() => setSealing(true)}>
            {t('seal')}
          </Button>
        )}
      </div>
      {found && !found.sealed && <p className="small dim">{t(isOver ? 'openText' : 'runsText')}</p>}
      {refused !== null && <Refusal error={refused} />}
      {isSealing && found && (
        <FormDialog
          title={t('sealTitle', { month })}
          confirm={t('sealNow')}
          danger
          act={() => send('POST', '/api/v1/seals', { month })}
          onDone={() => {
            setSealing(false)
            void client.invalidateQueries({ queryKey: ['report'] })
          }}
          onClose={() => setSealing(false)}
        >
          {() => (
            <>
              <dl className="facts left">
                <Fact name={t('month')}>{month}</Fact>
                <Fact name={t('lines')}>{formatNumber(found.lines.length)}</Fact>
                <Fact name={t('toPay')}>{money(found.total_micro)}</Fact>
                <Fact name={t('closing')}>
                  {found.closing === null ? UNKNOWN : t(found.closing.closes ? 'closes' : 'open')}
                </Fact>
              </dl>
              <p className="small">{t('sealText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}
