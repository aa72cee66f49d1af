// One node of the quota tree as a bar: a black tick is the guarantee, pale beyond it is borrowed,
// hollow before it is not used, grey ends at the limit.
import { useTranslation } from 'react-i18next'
import { findMark, styleMark } from '../../theme/marks'
import { formatCards } from '../../ui/format'
import type { QuotaRow } from './tree'

const HEIGHTS = [20, 16, 12] as const

export function QuotaBar({ row, scale }: { row: QuotaRow; scale: number }) {
  const { t } = useTranslation('quotas')
  const { heldMilli: held, guaranteeMilli: guarantee, limitMilli: limit, node } = row
  const height = HEIGHTS[Math.min(row.level, HEIGHTS.length - 1)]
  const fill = node.kind === 'tenant' ? styleMark(findMark(node.name)) : { background: 'var(--ink-3)' }
  const part = (milli: number) => `${Math.min(100, (milli / scale) * 100)}%`
  const within = guarantee === null ? held : Math.min(held, guarantee)
  const words = (milli: number | null) => (milli === null ? t('none') : formatCards(milli))
  const label = t('barLabel', { held: formatCards(held), guarantee: words(guarantee), limit: words(limit) })
  return (
    <div className="quota-bar" style={{ height }} role="img" aria-label={label}>
      <i className="quota-limit" style={{ width: limit === null ? '100%' : part(limit) }} />
      {guarantee !== null && guarantee > held && (
        <i className="quota-lent" style={{ left: part(held), width: part(guarantee - held) }} />
      )}
      <i style={{ width: part(within), ...fill }} />
      {held > within && (
        <i className="quota-over" style={{ left: part(within), width: part(held - within), ...fill }} />
      )}
      {guarantee !== null && node.kind !== 'pool' && <i className="quota-tick" style={{ left: part(guarantee) }} />}
    </div>
  )
}
