// What is free by model: the largest share that fits, and into which pieces the rest is broken.
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import type { PoolColumns } from '../../map/columns'
import { countFragments, type ModelFragments } from '../../map/fragments'
import { formatNumber, formatShare, UNKNOWN } from '../../ui/format'
import { Panel } from '../../ui/Page'
import { Scroll } from '../../ui/Scroll'

/** As much of a model of `GET /api/v1/capacity` as the panel shows. */
interface ModelRoom {
  model: string
  largest_milli: number
  largest_bytes: number
  whole_on_one_node: number
}

export function ModelPanel({ columns }: { columns: PoolColumns }) {
  const { t } = useTranslation('map')
  const fragments = useMemo(() => countFragments(columns), [columns])
  const rooms = useQuery({
    queryKey: ['capacity'],
    queryFn: () => request<{ models: ModelRoom[] }>('/api/v1/capacity'),
  })
  return (
    <Panel title={t('fragments')} hint={t('fragmentsHint')}>
      <Scroll label={t('fragments')}>
        <table className="tbl">
          <thead>
            <tr>
              <th>{t('model')}</th>
              <th className="right">{t('largest')}</th>
              <th className="right">{t('largestOnNode')}</th>
              <th className="right">{t('freeCards')}</th>
              <th className="map-pieces">{t('pieces')}</th>
            </tr>
          </thead>
          <tbody>
            {fragments.map((each) => (
              <ModelRow
                key={each.model}
                fragments={each}
                room={rooms.data?.models.find((room) => room.model === each.model)}
              />
            ))}
          </tbody>
        </table>
      </Scroll>
    </Panel>
  )
}

function ModelRow({ fragments, room }: { fragments: ModelFragments; room: ModelRoom | undefined }) {
  const { t } = useTranslation('map')
  const [small, quarter, half, whole] = fragments.pieces
  const all = Math.max(1, small + quarter + half + whole)
  const label = t('piecesLabel', { small, quarter, half, whole })
  return (
    <tr>
      <td className="strong">{fragments.model}</td>
      <td className="right nowrap">{room ? formatShare(room.largest_milli, room.largest_bytes) : UNKNOWN}</td>
      <td className="right">{room ? formatNumber(room.whole_on_one_node) : UNKNOWN}</td>
      <td className="right nowrap">
        {formatShare(fragments.freeMilli, null)}
        {fragments.strandedMilli > 0 && (
          <div className="small sub">{t('strandedAmount', { amount: formatShare(fragments.strandedMilli, null) })}</div>
        )}
      </td>
      <td>
        <div className="map-pieces-bar" role="img" aria-label={label} title={label}>
          {[whole, half, quarter, small].map((count, size) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the four sizes never change places
            <i key={size} className={`map-piece-${size}`} style={{ width: `${(count / all) * 100}%` }} />
          ))}
        </div>
      </td>
    </tr>
  )
}
