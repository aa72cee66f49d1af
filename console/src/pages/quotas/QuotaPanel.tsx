// One node of the quota tree: its numbers, and a change with what would follow from it.
import { Button, Checkbox, TextInput } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Problem } from '../../api/problem'
import { Answer } from '../../ui/Answer'
import { formatBytes, formatCards, formatDuration, formatNumber, formatPercent } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { Swatch } from '../../ui/Swatch'
import { QuotaBar } from './QuotaBar'
import { fetchQuota, type KnownQuota, putQuota } from './quotaChange'
import { type Change, compareChange, parseCards, type QuotaRow } from './tree'

interface QuotaPanelProps {
  readonly row: QuotaRow
  readonly rows: readonly QuotaRow[]
  readonly capacity: number
  readonly scale: number
  readonly mayChange: boolean
}

export function QuotaPanel(props: QuotaPanelProps) {
  const { t } = useTranslation('quotas')
  const { node } = props.row
  const quota = useQuery({
    queryKey: ['quotas', node.kind, node.name],
    queryFn: () => fetchQuota(node),
    enabled: props.mayChange,
    // The fields hold what was read: only the viewer replaces it.
    staleTime: Number.POSITIVE_INFINITY,
  })
  const title = (
    <span className="row">
      {node.kind === 'tenant' && <Swatch tenant={node.name} />}
      {props.mayChange ? t('change', { name: node.name }) : node.name}
    </span>
  )
  return (
    <Panel title={title}>
      <dl className="facts">
        <Fact name={t('share')}>{formatPercent(node.share_percent / 100, 1)}</Fact>
        <Fact name={t('memoryHeld')}>{formatBytes(node.held_memory_bytes)}</Fact>
        <Fact name={t('weight')}>{formatNumber(node.weight_milli / 1000, 2)}</Fact>
        <Fact name={t('past')}>{t('cardHours', { hours: formatNumber(node.past_card_hours, 1) })}</Fact>
      </dl>
      {!props.mayChange && <p className="small sub">{t('readOnly')}</p>}
      {props.mayChange && <Answer query={quota}>{quota.data && <QuotaForm {...props} first={quota.data} />}</Answer>}
    </Panel>
  )
}

/** The code of a change whose generation is not the latest. */
const STALE_GENERATION = 'GP-4001'

const writeCards = (milli: number | null) => (milli === null ? '0' : String(milli / 1000))

function QuotaForm({ row, rows, capacity, scale, first }: QuotaPanelProps & { first: KnownQuota }) {
  const { t } = useTranslation('quotas')
  const client = useQueryClient()
  const [known, setKnown] = useState(first)
  const [guarantee, setGuarantee] = useState(writeCards(first.body.nominal_milli))
  const [borrowing, setBorrowing] = useState(writeCards(first.body.borrowing_milli))
  const [isAny, setAny] = useState(first.body.borrowing_milli === null)
  const [theirs, setTheirs] = useState<KnownQuota | null>(null)
  const guaranteeMilli = parseCards(guarantee)
  const borrowingMilli = isAny ? null : parseCards(borrowing)
  const isValid = guaranteeMilli !== null && (isAny || borrowingMilli !== null)
  const change: Change | null = isValid ? { guaranteeMilli, borrowingMilli } : null
  const show = (quota: KnownQuota) => {
    setKnown(quota)
    setTheirs(null)
    setGuarantee(writeCards(quota.body.nominal_milli))
    setBorrowing(writeCards(quota.body.borrowing_milli))
    setAny(quota.body.borrowing_milli === null)
  }
  const save = useMutation({
    mutationFn: (base: KnownQuota) => putQuota(row.node, base, change as Change),
    onSuccess: (saved) => {
      show(saved)
      client.setQueryData(['quotas', row.node.kind, row.node.name], saved)
      void client.invalidateQueries({ queryKey: ['quotas'], exact: true })
    },
    onError: async (error) => {
      // Another change came first: show it, and keep what is written in the fields.
      if (error instanceof Problem && error.code === STALE_GENERATION) setTheirs(await fetchQuota(row.node))
    },
  })
  const isConflict = theirs !== null
  const invalid = (milli: number | null) => (milli === null ? t('notCards') : undefined)
  return (
    <form
      className="quota-form"
      onSubmit={(event) => {
        event.preventDefault()
        if (change) save.mutate(known)
      }}
    >
      <TextInput
        label={t('guaranteeField')}
        value={guarantee}
        inputMode="decimal"
        error={invalid(guaranteeMilli)}
        onChange={(event) => setGuarantee(event.currentTarget.value)}
      />
      <TextInput
        label={t('borrowField')}
        value={isAny ? '' : borrowing}
        disabled={isAny}
        inputMode="decimal"
        error={isAny ? undefined : invalid(borrowingMilli)}
        onChange={(event) => setBorrowing(event.currentTarget.value)}
      />
      <Checkbox
        size="xs"
        label={t('anyAmount')}
        checked={isAny}
        onChange={(event) => setAny(event.currentTarget.checked)}
      />
      {change && <Outcome row={row} rows={rows} capacity={capacity} scale={scale} change={change} />}
      {isConflict ? (
        <Conflict theirs={theirs} onKeep={() => save.mutate(theirs)} onTake={() => show(theirs)} />
      ) : (
        <div className="row">
          <Button type="submit" size="sm" disabled={!change} loading={save.isPending}>
            {t('save')}
          </Button>
          <Button size="sm" variant="default" onClick={() => show(known)}>
            {t('reset')}
          </Button>
          <span role="status" className="small sub">
            {save.isSuccess ? t('saved') : ''}
          </span>
        </div>
      )}
      {save.isError && !isConflict && <Refusal error={save.error} />}
    </form>
  )
}

interface ConflictProps {
  readonly theirs: KnownQuota
  onKeep(): void
  onTake(): void
}

function Conflict({ theirs, onKeep, onTake }: ConflictProps) {
  const { t } = useTranslation('quotas')
  const { nominal_milli: nominal, borrowing_milli: borrowing } = theirs.body
  const words = {
    guarantee: nominal === null ? t('none') : formatCards(nominal),
    borrowing: borrowing === null ? t('anyAmount') : formatCards(borrowing),
  }
  return (
    <div className="verdict refused" role="alert">
      <div>
        <b>{t('conflict')}</b>
        <p>{t('conflictText', words)}</p>
        <div className="row wrap quota-conflict">
          <Button size="xs" onClick={onTake}>
            {t('takeTheirs')}
          </Button>
          <Button size="xs" variant="default" onClick={onKeep}>
            {t('keepMine')}
          </Button>
        </div>
      </div>
    </div>
  )
}

interface OutcomeProps extends Omit<QuotaPanelProps, 'mayChange'> {
  readonly change: Change
}

function Outcome({ row, rows, capacity, scale, change }: OutcomeProps) {
  const { t } = useTranslation('quotas')
  const found = compareChange(rows, row, change, capacity)
  const parent = row.node.parent ?? t('pool')
  const limit = (milli: number | null) => (milli === null ? t('none') : formatCards(milli))
  const after: QuotaRow = {
    ...row,
    guaranteeMilli: change.guaranteeMilli,
    limitMilli: found.limitAfterMilli,
  }
  return (
    <>
      <div>
        <div className="small sub">{t('before')}</div>
        <QuotaBar row={row} scale={scale} />
        <div className="small sub">{t('after')}</div>
        <QuotaBar row={after} scale={scale} />
      </div>
      <div className="small">
        <b className="strong">{t('ifSaved')}</b>
        <ul className="sub quota-outcome">
          <li>
            {t('guaranteesBecome', {
              parent,
              after: formatCards(found.guaranteedAfterMilli),
              capacity: formatCards(found.capacityMilli),
            })}
          </li>
          {found.exceedsParent && (
            <li className="quota-exceeds">
              {t('exceeds', { amount: formatCards(found.guaranteedAfterMilli - found.capacityMilli), parent })}
            </li>
          )}
          <li>
            {found.limitBeforeMilli === found.limitAfterMilli
              ? t('limitStays', { limit: limit(found.limitAfterMilli) })
              : t('limitChanges', { before: limit(found.limitBeforeMilli), after: limit(found.limitAfterMilli) })}
          </li>
          {found.overLimitMilli > 0 && <li>{t('overLimit', { amount: formatCards(found.overLimitMilli) })}</li>}
          {found.reclaimableMilli > 0 && (
            <li>
              {t('reclaim', {
                name: row.node.name,
                amount: formatCards(found.reclaimableMilli),
                givers: found.givers.join(', '),
              })}
            </li>
          )}
          {found.freedMilli > 0 && <li>{t('freed', { amount: formatCards(found.freedMilli) })}</li>}
        </ul>
      </div>
      {row.node.kind === 'tenant' && <Forecast tenant={row.node.name} guaranteeMilli={change.guaranteeMilli} />}
    </>
  )
}

/** As much of one side of `POST /api/v1/whatif` as the panel shows. */
interface ForecastSide {
  queue: { start_now: number; wait_p50_seconds: number | null }
}

function Forecast({ tenant, guaranteeMilli }: { tenant: string; guaranteeMilli: number }) {
  const { t } = useTranslation('quotas')
  const forecast = useMutation({
    mutationFn: () =>
      request<{ before: ForecastSide; after: ForecastSide }>('/api/v1/whatif', {
        method: 'POST',
        body: JSON.stringify({ nominal_milli: { [tenant]: guaranteeMilli } }),
      }),
  })
  const sides = forecast.data
  return (
    <div>
      <Button size="xs" variant="default" loading={forecast.isPending} onClick={() => forecast.mutate()}>
        {t('forecast')}
      </Button>
      <p className="small sub" role="status">
        {sides &&
          t('forecastResult', {
            before: sides.before.queue.start_now,
            after: sides.after.queue.start_now,
            waitBefore: formatDuration(sides.before.queue.wait_p50_seconds),
            waitAfter: formatDuration(sides.after.queue.wait_p50_seconds),
          })}
      </p>
      {forecast.isError && <Refusal error={forecast.error} />}
    </div>
  )
}
