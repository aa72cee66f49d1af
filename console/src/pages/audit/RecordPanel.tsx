// One audit record whole: credential, what the body set, and its hashes.
import { useTranslation } from 'react-i18next'
import { formatInstant, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import type { AuditRecord } from './AuditPage'
import { Outcome } from './AuditTable'

export function RecordPanel({ record }: { record: AuditRecord }) {
  const { t } = useTranslation('audit')
  const rows = Object.entries({ ...record.changes, ...record.data })
  return (
    <Panel title={t('record', { seq: record.seq })}>
      <dl className="facts">
        <Fact name={t('column.at')}>{formatInstant(record.at_ns)}</Fact>
        <Fact name={t('column.answer')}>
          <Outcome record={record} />
        </Fact>
        <Fact name={t('column.user')}>
          {record.user ? `${record.tenant} / ${record.user} (${record.role})` : UNKNOWN}
        </Fact>
        <Fact name={t('credential')}>{record.credential ?? UNKNOWN}</Fact>
        <Fact name={t('column.from')}>{record.source ?? UNKNOWN}</Fact>
        <Fact name={t('column.act')}>{record.action || UNKNOWN}</Fact>
        <Fact name={t('objects')}>{(record.objects ?? []).join(' ') || UNKNOWN}</Fact>
        {rows.map(([name, value]) => (
          <Fact key={name} name={name}>
            <code className="mono audit-hash">{typeof value === 'string' ? value : JSON.stringify(value)}</code>
          </Fact>
        ))}
        <Fact name={t('hash')}>
          <code className="mono audit-hash">{record.hash}</code>
        </Fact>
      </dl>
    </Panel>
  )
}
