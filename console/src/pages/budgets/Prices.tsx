// Price lists: what a card costs an hour, since when.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { apiPath, send } from '../../api/lists'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatMoney, formatPercent } from '../../ui/format'
import { CopyButton, Empty, Panel } from '../../ui/Page'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { PriceDialog } from './PriceDialog'
import { findList, listPrices, type PriceList, type Rate } from './priceList'

type Open =
  | { act: 'put'; list: PriceList | null; isNext: boolean }
  | { act: 'delete'; list: PriceList; before: PriceList | null }

const COMMAND = "gpupool price set winter --from 2026-12 --currency EUR --price H200:3.50 --price '*:1.20'"

export function Prices() {
  const { t } = useTranslation('budgets')
  const client = useQueryClient()
  const mayChange = useSession().data?.permissions.includes('manage-pool') ?? false
  const [open, setOpen] = useState<Open | null>(null)
  const prices = useQuery({ queryKey: ['prices'], queryFn: listPrices })
  const lists = [...(prices.data ?? [])].reverse()
  const now = Date.now() * 1e6
  const close = () => setOpen(null)
  const done = () => {
    close()
    void client.invalidateQueries({ queryKey: ['prices'] })
  }
  const next = mayChange && (
    <Button size="xs" onClick={() => setOpen({ act: 'put', list: lists[0] ?? null, isNext: true })}>
      {t('newPrices')}
    </Button>
  )
  const actsOf = (list: PriceList) => (
    <span className="row wrap">
      <Button
        size="compact-xs"
        variant="default"
        aria-label={`${t('change')} ${list.name}`}
        onClick={() => setOpen({ act: 'put', list, isNext: false })}
      >
        {t('change')}
      </Button>
      <Button
        size="compact-xs"
        variant="default"
        aria-label={`${t('delete')} ${list.name}`}
        onClick={() => setOpen({ act: 'delete', list, before: findList(lists, list.from_ns, list.name) })}
      >
        {t('delete')}
      </Button>
    </span>
  )
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
        {lists.length > 0 && next && <div className="row">{next}</div>}
        {prices.isSuccess && lists.length === 0 && (
          <Panel>
            <Empty
              action={
                <span className="row wrap">
                  {next}
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
              right={
                <span className="row wrap">
                  {mayChange && list.from_ns > now && actsOf(list)}
                  <State state={isNow ? 'active' : list.from_ns > now ? 'planned' : 'ended'} />
                </span>
              }
            >
              <p className="small sub">
                {t(`rule.${list.rule ?? 'max'}`)}
                {(list.preemptible_discount_milli ?? 0) > 0 &&
                  ` ${t('discount', { percent: formatPercent((list.preemptible_discount_milli ?? 0) / 1000) })}`}
                {(list.reserved_milli ?? 0) > 0 &&
                  ` ${t('reservedPart', { percent: formatPercent((list.reserved_milli ?? 0) / 1000) })}`}
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
      {open?.act === 'put' && (
        <PriceDialog list={open.list} isNext={open.isNext} lists={lists} onDone={done} onClose={close} />
      )}
      {open?.act === 'delete' && (
        <FormDialog
          title={t('deletePrices', { name: open.list.name })}
          confirm={t('deletePricesNow')}
          danger
          act={() => send('DELETE', apiPath('prices', open.list.name))}
          onDone={done}
          onClose={close}
        >
          {() => (
            <p>
              {open.before === null
                ? t('deletePricesNone', { from: formatClock(open.list.from_ns) })
                : t('deletePricesText', { from: formatClock(open.list.from_ns), name: open.before.name })}
            </p>
          )}
        </FormDialog>
      )}
    </Answer>
  )
}
