// Quotas: the tree with what is guaranteed, held, borrowed and lent; and its changes.
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { formatCards, formatPercent } from '../../ui/format'
import { Page, Panel } from '../../ui/Page'
import { Scroll } from '../../ui/Scroll'
import { Swatch } from '../../ui/Swatch'
import { QuotaBar } from './QuotaBar'
import { QuotaPanel } from './QuotaPanel'
import { findChosen, findScale, keyOf, listRows, type QuotaNode, type QuotaRow } from './tree'
import './quotas.css'

export function QuotasPage() {
  const { t } = useTranslation('quotas')
  const session = useSession().data
  const tree = useQuery({
    queryKey: ['quotas'],
    queryFn: () => request<{ nodes: QuotaNode[] }>('/api/v1/quotas'),
  })
  const pool = useQuery({
    queryKey: ['nodes', 'pool'],
    queryFn: () => request<{ devices: number }>('/api/v1/pool'),
  })
  const rows = useMemo(() => listRows(tree.data?.nodes ?? []), [tree.data])
  const capacity = (pool.data?.devices ?? 0) * 1000
  const mayChange = session?.permissions.includes('manage-pool') ?? false
  return (
    <Page title={t('title')} sentence={useFact(rows, capacity)} command="gpupool quota tree">
      <Answer query={tree}>
        {rows.length > 0 && <QuotaTree rows={rows} capacity={capacity} mayChange={mayChange} />}
      </Answer>
    </Page>
  )
}

function useFact(rows: readonly QuotaRow[], capacity: number): string {
  const { t } = useTranslation('quotas')
  const first = rows[0]
  if (!first) return ''
  if (first.node.kind === 'tenant') {
    return t('factOwn', {
      tenant: first.node.name,
      held: formatCards(first.heldMilli),
      guaranteed: formatCards(first.guaranteeMilli ?? 0),
    })
  }
  const below = rows.filter((row) => row.level === 1)
  if (below.every((row) => row.guaranteeMilli === null && row.limitMilli === null)) return t('factNone')
  const guaranteed = below.reduce((sum, row) => sum + (row.guaranteeMilli ?? 0), 0)
  return t('fact', { guaranteed: formatCards(guaranteed), cards: formatCards(capacity, 0) })
}

interface QuotaTreeProps {
  readonly rows: readonly QuotaRow[]
  readonly capacity: number
  readonly mayChange: boolean
}

function QuotaTree({ rows, capacity, mayChange }: QuotaTreeProps) {
  const { t } = useTranslation('quotas')
  const [chosen, setChosen] = useState<string | null>(null)
  const scale = findScale(rows, capacity)
  const selected = findChosen(rows, chosen)
  return (
    <div className="grid gs quota-grid">
      <Panel flush title={t('tree')} right={<Legend />}>
        <Scroll label={t('tree')}>
          <table className="tbl quota-table">
            <thead>
              <tr>
                <th>{t('name')}</th>
                <th className="quota-bars">{t('scale')}</th>
                <th className="right">{t('used')}</th>
                <th className="right">{t('guaranteeColumn')}</th>
                <th className="right only-l">{t('limitColumn')}</th>
                <th className="right only-l">{t('borrowedColumn')}</th>
                <th className="right only-l">{t('lentColumn')}</th>
                <th className="right only-l">{t('due')}</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <Row
                  key={keyOf(row.node)}
                  row={row}
                  scale={scale}
                  chosen={row === selected}
                  onChoose={() => setChosen(keyOf(row.node))}
                />
              ))}
            </tbody>
          </table>
        </Scroll>
      </Panel>
      {selected ? (
        <QuotaPanel
          key={keyOf(selected.node)}
          row={selected}
          rows={rows}
          capacity={capacity}
          scale={scale}
          mayChange={mayChange}
        />
      ) : (
        <Panel>
          <p className="sub small">{t('choose')}</p>
        </Panel>
      )}
    </div>
  )
}

interface RowProps {
  readonly row: QuotaRow
  readonly scale: number
  readonly chosen: boolean
  onChoose(): void
}

function Row({ row, scale, chosen, onChoose }: RowProps) {
  const { t } = useTranslation('quotas')
  const { node } = row
  const amount = (milli: number | null) => (milli === null ? t('none') : formatCards(milli))
  return (
    <tr className={chosen ? 'quota-chosen' : node.kind === 'pool' ? 'quota-pool' : undefined}>
      <td className="nowrap" style={{ paddingLeft: 16 + row.level * 20 }}>
        {node.kind === 'pool' ? (
          <b className="strong">{t('pool')}</b>
        ) : (
          <button type="button" className="quota-name link" aria-pressed={chosen} onClick={onChoose}>
            {node.kind === 'tenant' && <Swatch tenant={node.name} />}
            {node.name}
          </button>
        )}
      </td>
      <td>
        <QuotaBar row={row} scale={scale} />
      </td>
      <td className="right num strong">{formatCards(row.heldMilli)}</td>
      <td className="right num">{node.kind === 'pool' ? '' : amount(row.guaranteeMilli)}</td>
      <td className="right num only-l">{node.kind === 'pool' ? '' : amount(row.limitMilli)}</td>
      <td className="right num only-l">{formatCards(row.borrowedMilli)}</td>
      <td className="right num only-l">{formatCards(row.lentMilli)}</td>
      <td className="right num only-l">{formatPercent(node.due_percent / 100)}</td>
    </tr>
  )
}

function Legend() {
  const { t } = useTranslation('quotas')
  return (
    <span className="row wrap small sub quota-legend">
      <span className="row">
        <i className="sw quota-within" aria-hidden />
        {t('within')}
      </span>
      <span className="row">
        <i className="sw quota-borrowed" aria-hidden />
        {t('borrowed')}
      </span>
      <span className="row">
        <i className="sw quota-lent" aria-hidden />
        {t('lent')}
      </span>
      <span className="row">
        <i className="quota-tick-sample" aria-hidden />
        {t('guarantee')}
      </span>
      <span className="row">
        <i className="sw quota-limit" aria-hidden />
        {t('upToLimit')}
      </span>
    </span>
  )
}
