// The card under the pointer: a short text beside it.
import { useTranslation } from 'react-i18next'
import { freeMilli, nameOf, OTHER_TENANT, type PoolColumns } from '../../map/columns'
import type { Hit } from '../../map/hits'
import { formatMilli } from '../../map/words'
import { formatShare } from '../../ui/format'

export interface Pointed {
  readonly hit: Hit
  readonly x: number
  readonly y: number
}

/** Pixels that the text takes at most, so that it stays on the screen. */
const WIDTH = 280
const MOST_SHARES = 8

export function PointedCard({ columns, pointed }: { columns: PoolColumns; pointed: Pointed }) {
  const { t } = useTranslation('map')
  const { card } = pointed.hit
  const first = columns.shareStart[card] ?? 0
  const end = columns.shareStart[card + 1] ?? first
  const shares = Array.from({ length: Math.min(end - first, MOST_SHARES) }, (_, place) => first + place)
  const left = Math.min(pointed.x + 14, window.innerWidth - WIDTH - 8)
  return (
    <div className="tip" style={{ left, top: pointed.y + 14 }} aria-hidden>
      <b>{nameOf(columns, card)}</b> · {columns.models[columns.model[card] ?? 0]}
      {shares.map((share) => {
        const tenant = columns.shareTenant[share] ?? OTHER_TENANT
        const amount = formatShare(columns.shareMilli[share] ?? 0, (columns.shareMib[share] ?? 0) * 2 ** 20)
        return (
          <div key={share} className={share === pointed.hit.share ? 'map-pointed' : undefined}>
            {columns.tenants[tenant] ?? t('anotherTenant')}: {amount}
          </div>
        )
      })}
      {end - first > MOST_SHARES && <div>{t('moreShares', { count: end - first - MOST_SHARES })}</div>}
      <div>{t('freeAmount', { amount: formatMilli(freeMilli(columns, card)) })}</div>
    </div>
  )
}
