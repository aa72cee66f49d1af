// A table whose columns say what they show; on a phone the minor ones go.
import type { ReactNode } from 'react'
import { useTranslation } from 'react-i18next'
import { Scroll } from './Scroll'

export interface Column<Row> {
  readonly title: ReactNode
  /** Numbers stand at the right. */
  readonly right?: boolean
  /** Not on a phone. */
  readonly minor?: boolean
  cell(row: Row): ReactNode
}

interface TableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Rows on the page; a line says how many more there are. */
  readonly most?: number
  rowKey(row: Row): string
}

const MOST_ROWS = 300

export function Table<Row>({ label, columns, rows, rowKey, most = MOST_ROWS }: TableProps<Row>) {
  const { t } = useTranslation('shell')
  const classOf = (column: Column<Row>) =>
    [column.right ? 'right num' : '', column.minor ? 'only-l' : ''].join(' ').trim() || undefined
  return (
    <>
      <Scroll label={label}>
        <table className="tbl">
          <thead>
            <tr>
              {columns.map((column, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                <th key={place} className={classOf(column)} scope="col">
                  {column.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, most).map((row) => (
              <tr key={rowKey(row)}>
                {columns.map((column, place) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
                  <td key={place} className={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {rows.length > most && <p className="small sub">{t('more', { count: rows.length - most })}</p>}
    </>
  )
}
