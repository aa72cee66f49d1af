// The same cards as a table, for keyboards and screen readers; only the rows in view are made.
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { conditionOf, freeMilli, nameOf, type PoolColumns } from '../../map/columns'
import type { CardGroup } from '../../map/groups'
import { formatPercent, formatShare } from '../../ui/format'
import { ShareBar } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { VirtualTable } from '../../ui/VirtualTable'

const ROW_HEIGHT = 38

interface MapTableProps {
  readonly columns: PoolColumns
  readonly groups: readonly CardGroup[]
  onSelect(card: number): void
}

export function MapTable({ columns, groups, onSelect }: MapTableProps) {
  const { t } = useTranslation('map')
  const cards = useMemo(() => {
    // A card with several tenants is in several groups, and here once.
    const found = new Set<number>()
    for (const group of groups) {
      for (const row of group.rows) {
        for (const card of row.cards) found.add(card)
      }
    }
    return [...found]
  }, [groups])
  return (
    <VirtualTable
      className="map-table"
      label={t('tableLabel')}
      count={cards.length}
      rowHeight={ROW_HEIGHT}
      head={
        <tr>
          <th>{t('card')}</th>
          <th>{t('model')}</th>
          <th className="map-table-shares">{t('shares')}</th>
          <th className="right">{t('held')}</th>
          <th className="right">{t('free')}</th>
          <th>{t('health')}</th>
        </tr>
      }
      renderRow={(index) => <CardCells columns={columns} card={cards[index] ?? 0} onSelect={onSelect} />}
    />
  )
}

interface CardCellsProps {
  readonly columns: PoolColumns
  readonly card: number
  onSelect(card: number): void
}

function CardCells({ columns, card, onSelect }: CardCellsProps) {
  const first = columns.shareStart[card] ?? 0
  const end = columns.shareStart[card + 1] ?? first
  const pieces = []
  for (let share = first; share < end; share++) {
    const tenant = columns.tenants[columns.shareTenant[share] ?? -1] ?? null
    pieces.push({ width: columns.shareMilli[share] ?? 0, tenant })
  }
  const memory = (columns.memoryBytes[card] ?? 0) - (columns.heldBytes[card] ?? 0)
  return (
    <>
      <td>
        <button type="button" className="plain link strong" onClick={() => onSelect(card)}>
          {nameOf(columns, card)}
        </button>
      </td>
      <td>{columns.models[columns.model[card] ?? 0]}</td>
      <td>
        <ShareBar height={14} total={1000} pieces={pieces} />
      </td>
      <td className="right num">{formatPercent((columns.heldMilli[card] ?? 0) / 1000)}</td>
      <td className="right num nowrap">{formatShare(freeMilli(columns, card), memory)}</td>
      <td>
        <State state={conditionOf(columns, card)} />
      </td>
    </>
  )
}
