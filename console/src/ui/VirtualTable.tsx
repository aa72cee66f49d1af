// A table of any length: only the rows in view are made, and space stands for the others.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type ReactNode, useEffect, useRef } from 'react'
import { Scroll } from './Scroll'
import './virtual-table.css'

interface VirtualTableProps {
  readonly label: string
  readonly className?: string
  readonly head: ReactNode
  readonly count: number
  readonly rowHeight: number
  /** The cells of a row. */
  renderRow(index: number): ReactNode
  /** The last row is in view: the next page of rows may be asked for. */
  onEnd?(): void
}

/** Rows that are made above and below the view. */
const OVERSCAN = 6

export function VirtualTable({ label, className = '', head, count, rowHeight, renderRow, onEnd }: VirtualTableProps) {
  const box = useRef<HTMLElement>(null)
  const rows = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => rowHeight,
    overscan: OVERSCAN,
  })
  const shown = rows.getVirtualItems()
  const last = shown.at(-1)?.index ?? -1
  const isAtEnd = count > 0 && last >= count - 1
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked once for each number of rows.
  useEffect(() => {
    if (isAtEnd) onEnd?.()
  }, [isAtEnd, count])
  const above = shown[0]?.start ?? 0
  const below = rows.getTotalSize() - (shown.at(-1)?.end ?? 0)
  return (
    <Scroll ref={box} className={`virtual-table ${className}`} label={label}>
      <table className="tbl" aria-rowcount={count + 1}>
        <thead>{head}</thead>
        <tbody>
          {above > 0 && <Space height={above} />}
          {shown.map((row) => (
            <tr key={row.key} aria-rowindex={row.index + 2} style={{ height: rowHeight }}>
              {renderRow(row.index)}
            </tr>
          ))}
          {below > 0 && <Space height={below} />}
        </tbody>
      </table>
    </Scroll>
  )
}

function Space({ height }: { height: number }) {
  return (
    <tr aria-hidden className="virtual-space">
      <td style={{ height }} />
    </tr>
  )
}
