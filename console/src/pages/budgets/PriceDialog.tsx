// Prices from an instant on: the rates, and what a card-hour costs before and after them.
import { Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Problem } from '../../api/problem'
import type { components } from '../../api/schema'
import { Conflict, useConflict } from '../../ui/Conflict'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatMoney, formatPercent, UNKNOWN } from '../../ui/format'
import { type Column, Table } from '../../ui/Table'
import {
  ANY_MODEL,
  CHARGE_RULES,
  type ChargeRule,
  comparePrices,
  fetchPrices,
  findFaults,
  findList,
  makeBody,
  makeDraft,
  NEW_TAG,
  type PriceChange,
  type PriceDraft,
  type PriceFault,
  type PriceList,
  putPrices,
} from './priceList'
import { RateRows } from './RateRows'

type Capacity = components['schemas']['CapacityOut']

interface PriceDialogProps {
  /** The list to change, or whose prices the next one begins with; null: there is none. */
  readonly list: PriceList | null
  /** True: another list that begins later. */
  readonly isNext: boolean
  readonly lists: readonly PriceList[]
  onDone(): void
  onClose(): void
}

const SEALED = 'GP-2120'
const MICRO = 1e6

export function PriceDialog({ list, isNext, lists, onDone, onClose }: PriceDialogProps) {
  const { t } = useTranslation('budgets')
  const [now] = useState(Date.now)
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  const isNew = list === null || isNext
  const [draft, setDraft] = useState<PriceDraft>(() => makeDraft(list, isNext, now, zone))
  const conflict = useConflict<PriceList>(isNew ? NEW_TAG : `"${list.generation}"`, () =>
    fetchPrices(draft.name).catch(readGone),
  )
  const capacity = useQuery({ queryKey: ['capacity'], queryFn: () => request<Capacity>('/api/v1/capacity') })
  const models = (capacity.data?.models ?? []).map((model) => model.model)
  const mechanisms = [...new Set((list?.rates ?? []).flatMap((rate) => rate.mechanism ?? []))]
  const faults = findFaults(draft, now)
  const set = (part: Partial<PriceDraft>) => setDraft({ ...draft, ...part })
  const own = (fault: PriceFault) => (faults.has(fault) ? t(`wrong.${fault}`) : undefined)
  const wrongFrom = own('past') ?? own('wholeHour') ?? (draft.from === '' ? undefined : own('from'))
  const hasOthers = lists.some((other) => isNew || other.name !== list?.name)
  return (
    <FormDialog
      title={isNew ? t('newPrices') : t('changePrices', { name: list.name })}
      confirm={t('savePrices')}
      isReady={faults.size === 0}
      fieldOfCode={{ 'GP-1003': 'name', [SEALED]: 'from_ns' }}
      wide
      act={() => conflict.guard((tag) => putPrices(draft.name.trim(), tag, makeBody(draft)))}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={(theirs) => t('theirPrices', { from: formatClock(theirs.from_ns), count: theirs.rates.length })}
          take={(theirs) => setDraft(makeDraft(theirs, false, now, zone))}
        />
      )}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            <TextInput
              className="third"
              label={t('listName')}
              disabled={!isNew}
              value={draft.name}
              error={problem('name')}
              onChange={(event) => set({ name: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('validFrom')}
              type="datetime-local"
              step={3600}
              value={draft.from}
              error={problem('from_ns') ?? wrongFrom}
              onChange={(event) => set({ from: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('currency')}
              placeholder="EUR"
              disabled={hasOthers}
              value={draft.currency}
              error={problem('currency') ?? (draft.currency === '' ? undefined : own('currency'))}
              onChange={(event) => set({ currency: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('priceZone')}
              disabled={hasOthers}
              value={draft.timezone}
              error={problem('timezone')}
              onChange={(event) => set({ timezone: event.currentTarget.value })}
            />
          </div>
          <RateRows rates={draft.rates} models={models} mechanisms={mechanisms} change={(rates) => set({ rates })} />
          {problem('rates') !== undefined && (
            <p className="small fault" role="alert">
              {problem('rates')}
            </p>
          )}
          <div className="row wrap fields-row">
            <Select
              className="third"
              label={t('chargedFor')}
              allowDeselect={false}
              data={CHARGE_RULES.map((value) => ({ value, label: t(`charge.${value}`) }))}
              value={draft.rule}
              onChange={(value) => set({ rule: (value as ChargeRule | null) ?? draft.rule })}
            />
            <TextInput
              className="third"
              label={t('discountField')}
              inputMode="decimal"
              value={draft.discountPercent}
              error={problem('preemptible_discount_milli') ?? own('discount')}
              onChange={(event) => set({ discountPercent: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('reservedField')}
              inputMode="decimal"
              value={draft.reservedPercent}
              error={problem('reserved_milli') ?? own('reserved')}
              onChange={(event) => set({ reservedPercent: event.currentTarget.value })}
            />
            <TextInput
              className="third"
              label={t('taxField')}
              inputMode="decimal"
              value={draft.taxPercent}
              error={problem('tax_basis_points') ?? own('tax')}
              onChange={(event) => set({ taxPercent: event.currentTarget.value })}
            />
          </div>
          {!faults.has('rates') && !faults.has('from') && (
            <Comparison draft={draft} lists={lists} without={isNew ? '' : list.name} models={models} />
          )}
        </>
      )}
    </FormDialog>
  )
}

interface ComparisonProps {
  readonly draft: PriceDraft
  readonly lists: readonly PriceList[]
  /** The list that is changed; it does not hold before itself. */
  readonly without: string
  readonly models: readonly string[]
}

/** What a card-hour costs by the list that would hold without this one, and by this one. */
function Comparison({ draft, lists, without, models }: ComparisonProps) {
  const { t } = useTranslation('budgets')
  const body = makeBody(draft)
  const before = findList(lists, body.from_ns, without)
  const changes = comparePrices(before?.rates ?? [], body.rates, models)
  const money = (micro: number | null, discountMilli: number) => {
    if (micro === null) return UNKNOWN
    const whole = formatMoney(micro / MICRO, draft.currency)
    if (discountMilli === 0) return whole
    const less = formatMoney((micro * (1000 - discountMilli)) / 1000 / MICRO, draft.currency)
    return (
      <>
        {whole}
        <br />
        <span className="small sub">{t('preemptiblePrice', { price: less })}</span>
      </>
    )
  }
  const columns: Column<PriceChange>[] = [
    {
      title: t('model'),
      cell: (row) => (
        <>
          {row.model === ANY_MODEL ? t('otherModels') : row.model}
          {(row.mechanism !== '' || row.sharing !== '') && (
            <div className="small sub">
              {[row.mechanism, row.sharing && t(`sharings.${row.sharing}`, { defaultValue: row.sharing })]
                .filter(Boolean)
                .join(', ')}
            </div>
          )}
        </>
      ),
    },
    {
      title: t('hoursOfDay'),
      cell: (row) =>
        row.fromHour === 0 && row.untilHour === 24 ? t('allDay') : `${row.fromHour}:00 – ${row.untilHour}:00`,
    },
    {
      title: before === null ? t('before') : t('beforeBy', { name: before.name }),
      right: true,
      cell: (row) => money(row.before, before?.preemptible_discount_milli ?? 0),
    },
    { title: t('after'), right: true, cell: (row) => money(row.after, body.preemptible_discount_milli ?? 0) },
    {
      title: t('difference'),
      right: true,
      minor: true,
      cell: (row) =>
        row.before === null || row.after === null || row.before === 0
          ? UNKNOWN
          : `${row.after > row.before ? '+' : ''}${formatPercent(row.after / row.before - 1, 1)}`,
    },
  ]
  return (
    <div role="status">
      <span className="field-label">{t('cardHour')}</span>
      <Table
        label={t('cardHour')}
        columns={columns}
        rows={changes}
        most={40}
        rowKey={(row) => `${row.model} ${row.mechanism} ${row.sharing} ${row.fromHour}`}
      />
    </div>
  )
}

function readGone(error: unknown): null {
  if (error instanceof Problem && error.status === 404) return null
  throw error
}
