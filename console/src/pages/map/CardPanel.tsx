// What is known of one card: its shares, each against its own limit, and its facts.

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { conditionOf, freeMilli, isStranded, nameOf, type PoolColumns } from '../../map/columns'
import { Answer } from '../../ui/Answer'
import { formatBytes, formatNumber, formatShare, MIB, UNKNOWN } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { type Piece, ShareBar, Use } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { Swatch } from '../../ui/Swatch'

/** A share of `GET /api/v1/devices/{device}/shares`. */
interface CardShare {
  job: string | null
  name: string | null
  tenant: string | null
  user: string | null
  gpu_milli: number
  memory_bytes: number
  since_ns: number
  mechanism: string | null
  share_percent: number | null
  used_bytes: number | null
}

/** As much of `GET /api/v1/devices/{device}` as the panel shows. */
interface CardFacts {
  product: string
  mode: string
  health_reason: string
  usage: {
    utilization_percent: number | null
    power_watts: number | null
    temperature_celsius: number | null
  }
}

export function CardTitle({ columns, card }: { columns: PoolColumns; card: number }) {
  return (
    <span className="row">
      <b className="strong">{nameOf(columns, card)}</b>
      <span className="sub">{columns.models[columns.model[card] ?? 0]}</span>
    </span>
  )
}

export function CardPanel({ columns, card }: { columns: PoolColumns; card: number }) {
  const { t } = useTranslation('map')
  const name = nameOf(columns, card)
  const path = `/api/v1/devices/${encodeURIComponent(name)}`
  const shares = useQuery({
    queryKey: ['map', 'shares', name],
    queryFn: () => request<CardShare[]>(`${path}/shares`),
  })
  const facts = useQuery({ queryKey: ['devices', name], queryFn: () => request<CardFacts>(path) })
  const memory = columns.memoryBytes[card] ?? 1
  return (
    <>
      <Bars columns={columns} card={card} />
      <Answer query={shares}>
        <div className="map-shares">
          {shares.data?.length === 0 && <div className="sub small">{t('noShares')}</div>}
          {shares.data?.map((share, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: shares of other tenants have no name
            <ShareLine key={`${share.job ?? ''} ${place}`} share={share} />
          ))}
        </div>
      </Answer>
      <dl className="facts map-facts">
        <Fact name={t('health')}>
          <State state={conditionOf(columns, card)} />
        </Fact>
        {facts.data?.health_reason && (
          <Fact name="">
            <ServerText text={facts.data.health_reason} />
          </Fact>
        )}
        <Fact name={t('freeCards')}>
          {formatShare(freeMilli(columns, card), memory - (columns.heldBytes[card] ?? 0))}
        </Fact>
        <Fact name={t('largest')}>{formatShare(columns.largestMilli[card] ?? 0, null)}</Fact>
        <Fact name={t('mechanism')}>{columns.mechanisms[columns.mechanism[card] ?? -1] ?? UNKNOWN}</Fact>
        <Fact name={t('temperature')}>{withUnit(facts.data?.usage.temperature_celsius, '°C')}</Fact>
        <Fact name={t('power')}>{withUnit(facts.data?.usage.power_watts, 'W')}</Fact>
        <Fact name={t('utilization')}>{withUnit(facts.data?.usage.utilization_percent, '%')}</Fact>
        <Fact name={t('rack')}>{columns.nodes.rack[columns.node[card] ?? 0] ?? UNKNOWN}</Fact>
        <Fact name={t('nvlink')}>{columns.nodes.domain[columns.node[card] ?? 0] ?? UNKNOWN}</Fact>
        <Fact name={t('product')}>{facts.data?.product ?? UNKNOWN}</Fact>
      </dl>
      <Link to={`/nodes?card=${encodeURIComponent(name)}` as string} className="link small map-open">
        {t('openNode')}
      </Link>
    </>
  )
}

function withUnit(value: number | null | undefined, unit: string): string {
  return value == null ? UNKNOWN : `${formatNumber(value)}\u00A0${unit}`
}

/** The shares of the card to scale, as the map has them. */
function Bars({ columns, card }: { columns: PoolColumns; card: number }) {
  const { t } = useTranslation('map')
  const memory = columns.memoryBytes[card] ?? 1
  const compute: Piece[] = []
  const memories: Piece[] = []
  const end = columns.shareStart[card + 1] ?? 0
  for (let share = columns.shareStart[card] ?? 0; share < end; share++) {
    const tenant = columns.tenants[columns.shareTenant[share] ?? -1] ?? null
    compute.push({ width: columns.shareMilli[share] ?? 0, tenant })
    memories.push({ width: (columns.shareMib[share] ?? 0) * MIB, tenant })
  }
  if (isStranded(columns, card)) compute.push({ width: freeMilli(columns, card), kind: 'stranded' })
  return (
    <>
      <div className="small sub">{t('compute')}</div>
      <ShareBar height={28} label={t('compute')} total={1000} pieces={compute} />
      <div className="row small sub map-memory">
        <span className="grow">{t('memory')}</span>
        <span className="num">{formatBytes(memory)}</span>
      </div>
      <ShareBar height={12} label={t('memory')} total={memory} pieces={memories} />
    </>
  )
}

function ShareLine({ share }: { share: CardShare }) {
  const { t } = useTranslation('map')
  return (
    <div>
      <div className="row">
        <Swatch tenant={share.tenant} />
        {share.job !== null ? (
          <Link to="/jobs/$job" params={{ job: share.job }} className="strong link grow cut">
            {share.name}
          </Link>
        ) : (
          <span className="grow cut sub">
            {share.tenant === null ? t('aJobOfAnother') : t('aJobOf', { tenant: share.tenant })}
          </span>
        )}
        <span className="small num sub nowrap">{formatShare(share.gpu_milli, share.memory_bytes)}</span>
      </div>
      <UseLine name={t('compute')} part={share.share_percent === null ? null : share.share_percent / 100} />
      <UseLine
        name={t('memory')}
        part={share.used_bytes === null ? null : share.used_bytes / Math.max(1, share.memory_bytes)}
      />
    </div>
  )
}

function UseLine({ name, part }: { name: string; part: number | null }) {
  return (
    <div className="row small sub map-use">
      <span className="map-use-name">{name}</span>
      <Use ratio={part} width={90} />
    </div>
  )
}
