// One card in a drawer: its facts, the isolation it can give, its shares and its events.
import { Drawer } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { useServerWords } from '../../app/serverWords'
import { Answer } from '../../ui/Answer'
import { formatBytes, formatClock, formatNumber, formatShare, UNKNOWN } from '../../ui/format'
import { Fact } from '../../ui/Page'
import { Scroll } from '../../ui/Scroll'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { Swatch } from '../../ui/Swatch'
import type { MechanismOffer, PoolCard } from './fleet'

/** Events of the pool among which those of the card are looked for. */
const EVENTS_READ = 1000

interface CardShare {
  job: string | null
  name: string | null
  tenant: string | null
  gpu_milli: number
  memory_bytes: number
}

interface PoolEvent {
  seq: number
  at_ns: number
  kind: string
  subject: string
  data: Record<string, unknown>
}

export function CardDetails({ name, onClose }: { name: string; onClose: () => void }) {
  const { t } = useTranslation('nodes')
  const path = `/api/v1/devices/${encodeURIComponent(name)}`
  const card = useQuery({ queryKey: ['devices', name], queryFn: () => request<PoolCard>(path) })
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="md"
      title={name}
      closeButtonProps={{ 'aria-label': t('close') }}
    >
      <Answer query={card}>
        {card.data && (
          <>
            <Facts card={card.data} />
            <Isolation offers={card.data.facts.mechanisms?.mechanisms ?? []} />
            <Shares path={path} name={name} />
            <Events card={card.data} />
            <Link to={`/map?card=${encodeURIComponent(name)}` as string} className="small link nodes-link">
              {t('onMap')}
            </Link>
          </>
        )}
      </Answer>
    </Drawer>
  )
}

function Facts({ card }: { card: PoolCard }) {
  const { t } = useTranslation('nodes')
  const { usage } = card
  const measure = (value: number | null, unit: string) =>
    value === null ? UNKNOWN : `${formatNumber(value)}\u00A0${unit}`
  return (
    <dl className="facts">
      <Fact name={t('state')}>
        <State state={card.state} />
      </Fact>
      <Fact name={t('health')}>
        <State state={card.health} />
      </Fact>
      {card.health_reason !== '' && (
        <Fact name={t('reason')}>
          <ServerText text={card.health_reason} />
        </Fact>
      )}
      <Fact name={t('model')}>{card.model}</Fact>
      <Fact name={t('product')}>{card.product}</Fact>
      <Fact name={t('mode')}>{card.mode}</Fact>
      <Fact name={t('memory')}>{formatBytes(card.memory_bytes)}</Fact>
      <Fact name={t('free')}>{formatShare(card.free_milli, card.free_bytes)}</Fact>
      <Fact name={t('busy')}>{measure(usage.utilization_percent, '%')}</Fact>
      <Fact name={t('temperature')}>{measure(usage.temperature_celsius, '°C')}</Fact>
      <Fact name={t('power')}>{measure(usage.power_watts, 'W')}</Fact>
      <Fact name={t('uuid')}>
        <span className="mono nodes-uuid">{card.uuid}</span>
      </Fact>
      {card.unmanaged.length > 0 && <Fact name={t('foreign')}>{formatNumber(card.unmanaged.length)}</Fact>}
    </dl>
  )
}

function Isolation({ offers }: { offers: readonly MechanismOffer[] }) {
  const { t } = useTranslation('nodes')
  const translate = useServerWords()
  const level = (offer: MechanismOffer, dimension: string) => {
    const word = offer.availability === 'never' ? undefined : offer.levels[dimension]
    return word === undefined ? UNKNOWN : t(`level.${word}`, { defaultValue: word })
  }
  return (
    <section className="nodes-part">
      <h2>{t('isolation')}</h2>
      <div className="small dim">{t('isolationHint')}</div>
      {offers.length === 0 ? (
        <p className="small sub">{t('noMechanisms')}</p>
      ) : (
        <Scroll label={t('isolation')}>
          <table className="tbl">
            <thead>
              <tr>
                <th>{t('mechanism')}</th>
                <th>{t('when')}</th>
                <th>{t('memoryLevel')}</th>
                <th>{t('computeLevel')}</th>
                <th>{t('faultLevel')}</th>
              </tr>
            </thead>
            <tbody>
              {offers.map((offer) => (
                <tr key={offer.name} title={translate(offer.why)}>
                  <td>{offer.name}</td>
                  <td>{t(`availability.${offer.availability}`)}</td>
                  <td>{level(offer, 'memory')}</td>
                  <td>{level(offer, 'compute')}</td>
                  <td>{level(offer, 'fault')}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
    </section>
  )
}

function Shares({ path, name }: { path: string; name: string }) {
  const { t } = useTranslation('nodes')
  const shares = useQuery({
    queryKey: ['map', 'shares', name],
    queryFn: () => request<CardShare[]>(`${path}/shares`),
  })
  return (
    <section className="nodes-part">
      <h2>{t('shares')}</h2>
      <Answer query={shares}>
        {shares.data?.length === 0 && <p className="small sub">{t('noShares')}</p>}
        {shares.data?.map((share, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: shares of other tenants have no name.
          <div key={`${share.job ?? ''} ${place}`} className="row small">
            <Swatch tenant={share.tenant} />
            <span className="grow cut">{share.name ?? t('aJobOf')}</span>
            <span className="num sub nowrap">{formatShare(share.gpu_milli, share.memory_bytes)}</span>
          </div>
        ))}
      </Answer>
    </section>
  )
}

function Events({ card }: { card: PoolCard }) {
  const { t } = useTranslation('nodes')
  const events = useQuery({
    queryKey: ['devices', card.name, 'events'],
    queryFn: async () => {
      const { last_event: last } = await request<{ last_event: number }>('/api/v1/pool')
      const after = Math.max(0, last - EVENTS_READ)
      return request<PoolEvent[]>(`/api/v1/events?after=${after}&limit=${EVENTS_READ}`)
    },
  })
  const own = events.data?.filter((event) => event.subject === card.name || event.subject === card.uuid).reverse()
  return (
    <section className="nodes-part">
      <h2>{t('events')}</h2>
      <Answer query={events}>
        {own?.length === 0 && <p className="small sub">{t('noEvents', { count: EVENTS_READ })}</p>}
        <ol className="nodes-events small">
          {own?.map((event) => (
            <li key={event.seq} className="row">
              <span className="num dim nowrap">{formatClock(event.at_ns)}</span>
              <span className="mono">{event.kind}</span>
              <span className="sub cut">{writeData(event.data)}</span>
            </li>
          ))}
        </ol>
      </Answer>
    </section>
  )
}

/** The data of an event in one line, as text. */
function writeData(data: Record<string, unknown>): string {
  const words: string[] = []
  for (const [name, value] of Object.entries(data)) {
    if (typeof value === 'string' || typeof value === 'number') words.push(`${name} ${value}`)
  }
  return words.join(', ')
}
