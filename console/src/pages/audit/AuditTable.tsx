// The table of audit records: a row opens the whole record below.
import { useTranslation } from 'react-i18next'
import { formatInstant, UNKNOWN } from '../../ui/format'
import { VirtualTable } from '../../ui/VirtualTable'
import type { AuditRecord } from './AuditPage'

const ROW_PIXELS = 44

interface Props {
  readonly records: readonly AuditRecord[]
  readonly chosen: number | null
  onChoose(seq: number | null): void
  onEnd(): void
}

export function AuditTable({ records, chosen, onChoose, onEnd }: Props) {
  const { t } = useTranslation('audit')
  return (
    <VirtualTable
      label={t('title')}
      className="audit-table"
      count={records.length}
      rowHeight={ROW_PIXELS}
      onEnd={onEnd}
      head={
        <tr>
          <th>{t('column.at')}</th>
          <th>{t('column.user')}</th>
          <th>{t('column.act')}</th>
          <th className="only-l">{t('column.from')}</th>
          <th>{t('column.answer')}</th>
        </tr>
      }
      renderRow={(index) => {
        const record = records[index]
        if (record === undefined) return null
        const isChosen = record.seq === chosen
        return (
          <>
            <td className="nowrap num">
              <button
                type="button"
                className="link audit-open"
                aria-expanded={isChosen}
                aria-label={t('open', { seq: record.seq })}
                onClick={() => onChoose(isChosen ? null : record.seq)}
              >
                {formatInstant(record.at_ns)}
              </button>
            </td>
            <td className="cut">{record.user ?? UNKNOWN}</td>
            <td className="cut">
              <Act record={record} />
            </td>
            <td className="only-l cut num">{record.source ?? UNKNOWN}</td>
            <td className="nowrap">
              <Outcome record={record} />
            </td>
          </>
        )
      }}
    />
  )
}

function Act({ record }: { record: AuditRecord }) {
  const { t } = useTranslation('audit')
  const objects = (record.objects ?? []).join(' ')
  const times = record.times ?? 1
  return (
    <span className="two cut">
      <span className="cut">
        {record.action || t(`kind.${record.kind}`)}
        {times > 1 && <span className="dim"> {t('times', { count: times })}</span>}
      </span>
      <span className="dim small cut">{objects}</span>
    </span>
  )
}

export function Outcome({ record }: { record: AuditRecord }) {
  const { t } = useTranslation('audit')
  const isRefused = (record.status ?? 0) >= 400
  return (
    <span className={isRefused ? 'audit-refused' : undefined}>
      {t(`kind.${record.kind}`)}
      {record.status != null && <span className="num"> {record.status}</span>}
      {record.code && <span className="num dim"> {record.code}</span>}
    </span>
  )
}
