// Why one job waits, what would help, and when it starts.

import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { request } from '../../api/client'
import { Answer } from '../../ui/Answer'
import { formatClock, formatDuration, formatNumber, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { ServerText } from '../../ui/ServerText'
import { Tenant } from '../../ui/ShareBar'
import { Swatch } from '../../ui/Swatch'
import { findAheadText, type Queued } from './queued'

/** As much of `GET /api/v1/jobs/{job}/explain` as the panel shows. */
interface Explanation {
  sentence: string
  hints: string[]
  nearest: string | null
  holders: string[]
  ahead: number | null
}

/** Jobs that are named whose end would help. */
const MOST_HOLDERS = 5

export function QueuedPanel({ item }: { item: Queued }) {
  const { t } = useTranslation('queue')
  const title = (
    <span className="row">
      <Swatch tenant={item.tenant} />
      {item.job ?? t('othersJobs', { count: item.count })}
    </span>
  )
  return (
    <Panel title={title}>
      <StartOf item={item} />
      {item.id === null ? (
        <p className="small sub">{t('othersText')}</p>
      ) : (
        <Reasons id={item.id} reason={item.reason} />
      )}
      <dl className="facts queue-facts">
        <Fact name={t('place')}>{formatNumber(item.place)}</Fact>
        <Fact name={t('asks')}>{item.share ?? UNKNOWN}</Fact>
        <Fact name={t('tenant')}>{item.tenant === null ? UNKNOWN : <Tenant name={item.tenant} />}</Fact>
        <Fact name={t('user')}>{item.user ?? UNKNOWN}</Fact>
        <Fact name={t('priority')}>{formatNumber(item.priority)}</Fact>
        <Fact name={t('waited')}>{formatDuration(item.waited_seconds)}</Fact>
      </dl>
      {item.id !== null && (
        <Link to={`/jobs/${encodeURIComponent(item.id)}` as string} className="small link queue-open">
          {t('openJob')}
        </Link>
      )}
    </Panel>
  )
}

function StartOf({ item }: { item: Queued }) {
  const { t } = useTranslation('queue')
  if (item.start_ns === null) return <div className="sub">{t('noPromise')}</div>
  const seconds = Math.max(0, item.start_ns / 1e9 - Date.now() / 1000)
  const time = formatDuration(seconds)
  return (
    <>
      <div className="big">{formatClock(item.start_ns)}</div>
      <div className="sub">{t(item.start_promised ? 'promisedStart' : 'estimatedStart', { time })}</div>
      {!item.start_promised && item.start_chance_pct !== null && (
        <div className="small dim">{t('estimatedChance', { percent: item.start_chance_pct })}</div>
      )}
    </>
  )
}

function Reasons({ id, reason }: { id: string; reason: string | null }) {
  const { t } = useTranslation('queue')
  const found = useQuery({
    queryKey: ['explain', id, reason],
    queryFn: () => request<Explanation>(`/api/v1/jobs/${encodeURIComponent(id)}/explain`),
  })
  const explanation = found.data
  const ahead = findAheadText(explanation?.ahead ?? null)
  return (
    <Answer query={found}>
      {explanation && (
        <>
          <h3 className="small queue-why">{t('why')}</h3>
          <p className="small sub">
            <ServerText text={explanation.sentence} />
          </p>
          {ahead !== null && <p className="small sub">{t(ahead, { count: explanation.ahead ?? 0 })}</p>}
          <Help explanation={explanation} />
        </>
      )}
    </Answer>
  )
}

function Help({ explanation }: { explanation: Explanation }) {
  const { t } = useTranslation('queue')
  const { hints, nearest, holders } = explanation
  if (hints.length === 0 && nearest === null && holders.length === 0) return null
  return (
    <>
      <h3 className="small queue-why">{t('help')}</h3>
      <ul className="small sub queue-help">
        {nearest !== null && <li>{t('nearest', { share: nearest })}</li>}
        {holders.length > 0 && (
          <li>
            {t('endsWouldHelp')}
            <ul className="queue-help">
              {holders.slice(0, MOST_HOLDERS).map((holder) => (
                <li key={holder}>
                  <ServerText text={holder} />
                </li>
              ))}
            </ul>
          </li>
        )}
        {hints.map((hint) => (
          <li key={hint}>
            <ServerText text={hint} />
          </li>
        ))}
      </ul>
    </>
  )
}
