// What if: the queue as it will be, without and with a change that is only simulated.
import { Button, MultiSelect, TextInput } from '@mantine/core'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { listAll, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { findProblem } from '../../ui/FormDialog'
import {
  formatBytes,
  formatCards,
  formatDuration,
  formatMoney,
  formatNumber,
  formatPercent,
  UNKNOWN,
} from '../../ui/format'
import { Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { Tenant } from '../../ui/ShareBar'
import { type Column, Table } from '../../ui/Table'
import {
  type Change,
  type Forecast,
  makeBody,
  NO_CHANGE,
  parseAdded,
  parseHorizon,
  parsePolicy,
  parseQuotas,
  type Side,
  writeCommand,
} from './change'

type Node = components['schemas']['NodeOut']

export function WhatIfPage() {
  const { t } = useTranslation('whatif')
  const [change, setChange] = useState<Change>(NO_CHANGE)
  const nodes = useQuery({ queryKey: ['nodes', 'names'], queryFn: () => listAll<Node>('/api/v1/nodes') })
  const body = makeBody(change)
  const ask = useMutation({ mutationFn: () => send<Forecast>('POST', '/api/v1/whatif', body) })
  const set = (part: Partial<Change>) => setChange({ ...change, ...part })
  const wrong = (isWrong: boolean, field: string, text: string) =>
    isWrong ? text : findProblem(ask.error, field, { 'GP-1005': 'policy', 'GP-3004': 'nominal_milli' })
  return (
    <Page title={t('title')} sentence={t('fact')} command={writeCommand(change)}>
      <div className="grid">
        <Panel title={t('change')} hint={t('changeHint')}>
          <form
            className="form"
            onSubmit={(event) => {
              event.preventDefault()
              ask.mutate()
            }}
          >
            <div className="row wrap fields-row">
              <TextInput
                className="third"
                label={t('add')}
                placeholder="4xL40S, 2x8xH200"
                value={change.add}
                error={wrong(parseAdded(change.add) === null, 'add', t('wrongAdd'))}
                onChange={(event) => set({ add: event.currentTarget.value })}
              />
              <MultiSelect
                className="third"
                label={t('remove')}
                placeholder={change.remove.length === 0 ? t('none') : undefined}
                searchable
                data={(nodes.data ?? []).map((node) => node.name)}
                value={change.remove}
                error={findProblem(ask.error, 'remove')}
                onChange={(remove) => set({ remove })}
              />
              <TextInput
                className="third"
                label={t('quotas')}
                placeholder="team-nlp=8"
                value={change.quotas}
                error={wrong(parseQuotas(change.quotas) === null, 'nominal_milli', t('wrongQuotas'))}
                onChange={(event) => set({ quotas: event.currentTarget.value })}
              />
              <TextInput
                className="third"
                label={t('policy')}
                placeholder={t('present')}
                value={change.policy}
                error={wrong(parsePolicy(change.policy) === null, 'policy', t('wrongPolicy'))}
                onChange={(event) => set({ policy: event.currentTarget.value })}
              />
              <TextInput
                className="third"
                label={t('horizon')}
                inputMode="decimal"
                value={change.horizonHours}
                error={wrong(parseHorizon(change.horizonHours) === null, 'horizon_seconds', t('wrongHorizon'))}
                onChange={(event) => set({ horizonHours: event.currentTarget.value })}
              />
            </div>
            <div>
              <Button size="sm" type="submit" loading={ask.isPending} disabled={body === null}>
                {t('ask')}
              </Button>
            </div>
            {ask.isError && <Refusal error={ask.error} />}
          </form>
        </Panel>
        <div role="status">{ask.data && <Comparison forecast={ask.data} />}</div>
        {!ask.data && <p className="small sub">{t('howText')}</p>}
      </div>
    </Page>
  )
}

interface Line {
  readonly name: string
  readonly before: string
  readonly after: string
}

function Comparison({ forecast }: { forecast: Forecast }) {
  const { t } = useTranslation('whatif')
  const { before, after } = forecast
  const line = (key: string, write: (side: Side) => string): Line => ({
    name: t(`line.${key}`),
    before: write(before),
    after: write(after),
  })
  const percent = (value: number | null) => (value === null ? UNKNOWN : formatPercent(value / 100, 1))
  const money = ({ cost_month_micro: micro, currency }: Side) =>
    typeof micro === 'number' && currency ? formatMoney(micro / 1_000_000, currency) : UNKNOWN
  const lines = [
    line('policy', (side) => side.policy || UNKNOWN),
    line('sharing', (side) => side.sharing ?? t('asClaimed')),
    line('nodes', (side) => formatNumber(side.nodes)),
    line('cards', (side) => formatNumber(side.cards)),
    line('waiting', (side) => formatNumber(side.queue.waiting)),
    line('now', (side) => formatNumber(side.queue.start_now)),
    line('later', (side) => formatNumber(side.queue.start_later)),
    line('median', (side) => formatDuration(side.queue.wait_p50_seconds)),
    line('p95', (side) => formatDuration(side.queue.wait_p95_seconds)),
    line('held', (side) => percent(side.allocation_now_pct)),
    line('heldMean', (side) => percent(side.allocation_pct)),
    line('strandedMemory', (side) => formatBytes(side.stranded_memory_bytes)),
    line('largest', (side) => formatCards(side.largest_milli, 2)),
    line('wholeNodes', (side) => formatNumber(side.whole_nodes)),
    line('cost', money),
    line('evictions', (side) => formatNumber(side.evictions)),
    line('moved', (side) => formatNumber(side.moved)),
    line('noEnd', (side) => formatNumber(side.no_end)),
  ]
  const columns: Column<Line>[] = [
    { title: t('number'), cell: (row) => row.name },
    { title: t('before'), right: true, cell: (row) => row.before },
    {
      title: t('after'),
      right: true,
      cell: (row) => <span className={row.before === row.after ? undefined : 'strong'}>{row.after}</span>,
    },
  ]
  const tenants = [...new Set([...Object.keys(before.tenants), ...Object.keys(after.tenants)])].sort()
  const pair = (tenant: string, write: (queue: Side['queue']) => string) => {
    const [old, changed] = [before.tenants[tenant], after.tenants[tenant]]
    return t('pair', { before: old ? write(old) : UNKNOWN, after: changed ? write(changed) : UNKNOWN })
  }
  const tenantColumns: Column<string>[] = [
    { title: t('tenant'), cell: (tenant) => <Tenant name={tenant} strong /> },
    { title: t('line.now'), right: true, cell: (tenant) => pair(tenant, (queue) => formatNumber(queue.start_now)) },
    {
      title: t('line.median'),
      right: true,
      cell: (tenant) => pair(tenant, (queue) => formatDuration(queue.wait_p50_seconds)),
    },
  ]
  return (
    <div className="grid g11 top-aligned">
      <Panel title={t('outcome')} hint={t('ahead', { time: formatDuration(after.horizon_seconds) })}>
        <Table label={t('outcome')} columns={columns} rows={lines} rowKey={(row) => row.name} />
        {after.no_end > 0 && <p className="small sub">{t('noEndText', { count: after.no_end })}</p>}
      </Panel>
      {tenants.length > 0 && (
        <Panel title={t('byTenant')}>
          <Table label={t('byTenant')} columns={tenantColumns} rows={tenants} rowKey={(tenant) => tenant} />
        </Panel>
      )}
    </div>
  )
}
