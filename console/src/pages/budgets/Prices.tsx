// Price lists: what a card costs an hour, since when.
import { useQuery } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import type { components } from '../../api/schema'
import { Answer } from '../../ui/Answer'
import { formatClock, formatMoney, formatPercent } from '../../ui/format'
import { CopyButton, Empty, Panel } from '../../ui/Page'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'

type PriceList = components['schemas']['PriceListOut']
type Rate = components['schemas']['RateIn']

const COMMAND = "gpupool price set winter --from 2026-12 --currency EUR --price H200:3.50 --price '*:1.20'"

export function Prices() {
  const { t } = useTranslation('budgets')
  const prices = useQuery({ queryKey: ['prices'], queryFn: () => request<PriceList[]>('/api/v1/prices') })
  const lists = [...(prices.data ?? [])].reverse()
  const now = Date.now() * 1e6
  const any = (word: string | null | undefined) => word ?? t('any')
  const hoursOf = (rate: Rate) =>
    rate.from_hour == null && rate.until_hour == null
      ? t('allDay')
      : `${rate.from_hour ?? 0}:00 – ${rate.until_hour ?? 24}:00`
  const columnsOf = (list: PriceList): Column<Rate>[] => [
    { title: t('model'), cell: (rate) => (rate.model === '*' ? t('otherModels') : rate.model) },
    { title: t('price'), right: true, cell: (rate) => formatMoney(rate.price_micro / 1e6, list.currency) },
    { title: t('mechanism'), minor: true, cell: (rate) => any(rate.mechanism) },
    { title: t('sharing'), minor: true, cell: (rate) => any(rate.sharing) },
    { title: t('hoursOfDay'), minor: true, cell: hoursOf },
  ]
  return (
    <Answer query={prices}>
      <div className="grid">
        {prices.isSuccess && lists.length === 0 && (
          <Panel>
            <Empty
              action={
                <span className="row wrap">
                  <code className="mono">{COMMAND}</code>
                  <CopyButton text={COMMAND} label={t('shell:copyCommand')} />
                </span>
              }
            >
              {t('noPrices')}
            </Empty>
          </Panel>
        )}
        {lists.map((list) => {
          const isNow = list.from_ns <= now && (list.until_ns === null || now < list.until_ns)
          return (
            <Panel
              key={list.name}
              title={list.name}
              hint={t('priceSpan', {
                from: formatClock(list.from_ns),
                until: list.until_ns === null ? t('open') : formatClock(list.until_ns),
              })}
              right={<State state={isNow ? 'active' : list.from_ns > now ? 'planned' : 'ended'} />}
            >
              <p className="small sub">
                {t(`rule.${list.rule ?? 'max'}`)}
                {(list.preemptible_discount_milli ?? 0) > 0 &&
                  ` ${t('discount', { percent: formatPercent((list.preemptible_discount_milli ?? 0) / 1000) })}`}
                {(list.tax_basis_points ?? 0) > 0 &&
                  ` ${t('tax', { percent: formatPercent((list.tax_basis_points ?? 0) / 10_000, 2) })}`}
              </p>
              <Table
                label={t('ratesOf', { name: list.name })}
                columns={columnsOf(list)}
                rows={list.rates}
                rowKey={(rate) => [rate.model, rate.mechanism, rate.sharing, rate.from_hour, rate.until_hour].join(' ')}
              />
            </Panel>
          )
        })}
      </div>
    </Answer>
  )
}
