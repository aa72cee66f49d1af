// The rows of the report: what each tenant, project, user or model held, and what came of it.
import { useTranslation } from 'react-i18next'
import { formatAmount, formatMoney, formatPercent, UNKNOWN } from '../../ui/format'
import { Scroll } from '../../ui/Scroll'
import { Tenant } from '../../ui/ShareBar'
import { findKept, findUnused, type Report, type ReportRow, sumKnown, toCardHours, toThousands } from './books'
import type { Group } from './UsagePage'

/** Rows on the page; the CSV has all. */
const MOST_ROWS = 100

interface UsageTableProps {
  readonly report: Report
  readonly rows: readonly ReportRow[]
  readonly group: Group
}

export function UsageTable({ report, rows, group }: UsageTableProps) {
  const { t } = useTranslation('usage')
  const capacity = report.capacity_card_milliseconds
  const total = rows.reduce((sum, row) => sum + row.card_milliseconds, 0)
  const hasCost = report.total_cost != null && group !== 'model'
  // Energy is kept by owner, not by card.
  const hasEnergy = group !== 'model'
  return (
    <>
      <Scroll label={t('rows', { by: t(`by.${group}`) })}>
        <table className="tbl">
          <thead>
            <tr>
              {group !== 'model' && <th className="usage-name">{t('by.tenant')}</th>}
              {group !== 'tenant' && <th className="usage-name">{t(`by.${group}`)}</th>}
              <th className="right">{t('hours')}</th>
              <th className="right only-l">{t('ofCapacity')}</th>
              {hasCost && <th className="right">{t('cost')}</th>}
              {hasEnergy && <th className="right">{t('energy')}</th>}
              {hasEnergy && <th className="right only-l">{t('carbon')}</th>}
              <th className="right only-l">{t('kept')}</th>
              <th className="right only-l">{t('unused')}</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, MOST_ROWS).map((row) => (
              <tr key={`${row.kind} ${row.tenant} ${row.project} ${row.user} ${row.model}`}>
                {group !== 'model' && (
                  <td>
                    <Tenant name={row.tenant} strong />
                    {row.kind === 'reserved' && <span className="small sub"> {t('kind.reserved')}</span>}
                  </td>
                )}
                {group !== 'tenant' && <td>{row[group] ?? UNKNOWN}</td>}
                <td className="right num">{formatAmount(toCardHours(row.card_milliseconds), 1)}</td>
                <td className="right num sub only-l">{formatPercent(row.card_milliseconds / capacity, 1)}</td>
                {hasCost && <td className="right num strong">{writeCost(row.cost, report.currency)}</td>}
                {hasEnergy && <EnergyCells energy={row.energy_milliwatt_hours} carbon={row.co2e_milligrams} />}
                <td className="right num only-l">{formatPercent(findKept(row), 1)}</td>
                <td className="right num only-l">{formatPercent(findUnused(row))}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <td colSpan={group === 'project' || group === 'user' ? 2 : 1}>{t('total')}</td>
              <td className="right num">{formatAmount(toCardHours(total), 1)}</td>
              <td className="right num only-l">{formatPercent(total / capacity, 1)}</td>
              {hasCost && <td className="right num">{writeCost(report.total_cost, report.currency)}</td>}
              {hasEnergy && (
                <EnergyCells
                  energy={sumKnown(rows, 'energy_milliwatt_hours')}
                  carbon={sumKnown(rows, 'co2e_milligrams')}
                />
              )}
              <td className="only-l" />
              <td className="only-l" />
            </tr>
          </tfoot>
        </table>
      </Scroll>
      {rows.length > MOST_ROWS && <p className="small sub">{t('more', { count: rows.length - MOST_ROWS })}</p>}
    </>
  )
}

interface EnergyCellsProps {
  readonly energy: number | null | undefined
  readonly carbon: number | null | undefined
}

function EnergyCells({ energy, carbon }: EnergyCellsProps) {
  return (
    <>
      <td className="right num">{formatAmount(toThousands(energy), 2)}</td>
      <td className="right num only-l">{formatAmount(toThousands(carbon), 2)}</td>
    </>
  )
}

function writeCost(cost: string | null | undefined, currency: string | null | undefined): string {
  return cost == null ? UNKNOWN : formatMoney(Number(cost), currency ?? '')
}
