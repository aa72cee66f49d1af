// One budget: a bar with its thresholds, the forecast, and what happens at each threshold.
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { formatClock, formatDuration, formatMoney, formatNumber, formatPercent, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { State } from '../../ui/State'
import { Swatch } from '../../ui/Swatch'
import { type Column, Table } from '../../ui/Table'
import { type Budget, findScale, toWritten } from './budgets'

/** Words of an amount in the unit of its budget. */
export function useAmount(): (budget: Budget, amount: number | null | undefined) => string {
  const { t } = useTranslation('budgets')
  return (budget, amount) => {
    if (amount == null) return UNKNOWN
    const value = toWritten(amount, budget.unit)
    return budget.unit === 'money' ? formatMoney(value, budget.currency) : t('hours', { hours: formatNumber(value, 1) })
  }
}

interface BudgetCardProps {
  readonly budget: Budget
  readonly owner: string
  readonly acts: ReactNode
}

type Threshold = Budget['thresholds'][number]

export function BudgetCard({ budget, owner, acts }: BudgetCardProps) {
  const { t } = useTranslation('budgets')
  const amount = useAmount()
  const { forecast } = budget
  const grace = formatDuration(budget.grace_seconds)
  const columns: Column<Threshold>[] = [
    { title: t('at'), right: true, cell: (row) => formatPercent(row.percent / 100) },
    { title: t('thatIs'), right: true, cell: (row) => amount(budget, (budget.amount * row.percent) / 100) },
    { title: t('then'), cell: (row) => t(`effect.${row.effect}`, { grace }) },
    {
      title: t('reached'),
      right: true,
      cell: (row) => (row.reached_ns === null ? t('notYet') : formatClock(row.reached_ns)),
    },
  ]
  return (
    <Panel
      title={
        <span className="row">
          <Swatch tenant={budget.tenant} />
          {owner}
          {budget.on_hold && <State state="held" />}
        </span>
      }
      hint={t('periodOf', { period: budget.period_name, timezone: budget.timezone })}
      right={acts}
    >
      <BudgetBar budget={budget} />
      <div className="grid g11 gap">
        <dl className="facts">
          <Fact name={t('spent')}>
            {amount(budget, budget.spent)} · {formatPercent(budget.spent_percent / 100)}
          </Fact>
          <Fact name={t('amount')}>{amount(budget, budget.amount)}</Fact>
          <Fact name={t('left')}>{amount(budget, Math.max(0, budget.amount - budget.spent))}</Fact>
          <Fact name={t('forecastEnd')}>
            {forecast === null
              ? UNKNOWN
              : `${amount(budget, forecast.end)} (${amount(budget, forecast.low)} – ${amount(budget, forecast.high)})`}
          </Fact>
          <Fact name={t('runsOut')}>
            {forecast === null
              ? UNKNOWN
              : forecast.runs_out_ns === null
                ? t('notInPeriod')
                : formatClock(forecast.runs_out_ns)}
          </Fact>
          <Fact name={t('periodEnds')}>{formatClock(budget.period_end_ns)}</Fact>
        </dl>
        <Table
          label={t('thresholdsOf', { owner })}
          columns={columns}
          rows={budget.thresholds}
          rowKey={(row) => `${row.percent}`}
        />
      </div>
      {budget.on_hold && <p className="small gap">{t('onHold')}</p>}
      {forecast === null && <p className="small dim">{t('noForecast')}</p>}
    </Panel>
  )
}

function BudgetBar({ budget }: { budget: Budget }) {
  const { t } = useTranslation('budgets')
  const amount = useAmount()
  const scale = findScale(budget)
  const part = (value: number) => `${Math.min(100, (value / scale) * 100)}%`
  const label = t('barLabel', { spent: amount(budget, budget.spent), amount: amount(budget, budget.amount) })
  const { forecast } = budget
  return (
    <div className="budget-bar" role="img" aria-label={label}>
      {forecast !== null && (
        <i
          className="budget-band"
          style={{ left: part(forecast.low), width: part(Math.max(0, forecast.high - forecast.low)) }}
        />
      )}
      {forecast !== null && <i className="budget-end" style={{ left: part(forecast.end) }} />}
      <i className={budget.on_hold ? 'budget-spent held' : 'budget-spent'} style={{ width: part(budget.spent) }} />
      {budget.thresholds.map((threshold) => (
        <i
          key={threshold.percent}
          className={`budget-tick ${threshold.effect}`}
          style={{ left: part((budget.amount * threshold.percent) / 100) }}
        />
      ))}
    </div>
  )
}
