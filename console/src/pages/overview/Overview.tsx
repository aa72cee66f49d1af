// The page Overview: what is held and free, what waits, what is wrong, and the viewer's own jobs.
import { Button } from '@mantine/core'
import { IconPlus } from '@tabler/icons-react'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { getOverview, type ModelRoom, type Overview as PoolOverview } from '../../api/overview'
import {
  formatCards,
  formatClock,
  formatDuration,
  formatMoney,
  formatNumber,
  formatShare,
  UNKNOWN,
} from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { ShareBar, Tenant, Use } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { NotebookButton } from '../../workspace/NotebookButton'
import { findState } from '../jobs/JobTable'
import { IdlePanel } from './IdlePanel'

const REFRESH_MS = 30_000
const MICRO = 1e6
/** Thousandths of a card for a second, in one card-hour of the API's card milliseconds. */
const MILLISECONDS_PER_CARD_HOUR = 3_600_000

export function Overview() {
  const { t } = useTranslation('overview')
  const answer = useQuery({ queryKey: ['overview'], queryFn: getOverview, refetchInterval: REFRESH_MS })
  const pool = answer.data
  return (
    <Page
      title={t('menu')}
      command="gpupool overview"
      sentence={
        pool &&
        t('sentence', {
          held: formatCards(pool.held_milli),
          capacity: formatCards(pool.capacity_milli, 0),
          free: formatCards(pool.free_milli),
          waiting: pool.waiting,
        })
      }
      actions={
        <>
          <NotebookButton />
          <Button component={Link} to="/request" leftSection={<IconPlus size={16} />}>
            {t('request')}
          </Button>
        </>
      }
    >
      {answer.isError && <Refusal error={answer.error} />}
      {pool && (
        <>
          <PoolPanel pool={pool} />
          <div className="grid g2 gap">
            <QueuePanel pool={pool} />
            <AttentionPanel pool={pool} />
            <MinePanel pool={pool} />
            <TodayPanel pool={pool} />
            <IdlePanel />
          </div>
        </>
      )}
    </Page>
  )
}

interface PoolProps {
  pool: PoolOverview
}

function PoolPanel({ pool }: PoolProps) {
  const { t } = useTranslation('overview')
  if (pool.cards.total === 0) {
    return (
      <Panel title={t('pool')}>
        <Empty>
          <p>{t('noCards')}</p>
          <code className="mono">gpupool adopt --all</code>
        </Empty>
      </Panel>
    )
  }
  const known = pool.tenants.reduce((sum, tenant) => sum + tenant.held_milli, 0)
  const pieces = [
    ...pool.tenants.map((tenant) => ({ width: tenant.held_milli, tenant: tenant.tenant, label: tenant.tenant })),
    { width: pool.held_milli - known, tenant: null, label: t('otherTenants') },
  ]
  return (
    <Panel title={t('pool')} hint={t('poolHint')}>
      <ShareBar
        height={26}
        total={pool.capacity_milli || 1}
        label={t('heldOf', { held: formatCards(pool.held_milli), total: formatCards(pool.capacity_milli, 0) })}
        pieces={pieces}
      />
      <div className="row wrap small legend">
        {pool.tenants.map((tenant) => (
          <span key={tenant.tenant} className="row tight">
            <Tenant name={tenant.tenant} />
            <span className="num dim">{formatCards(tenant.held_milli)}</span>
          </span>
        ))}
        {pool.held_milli > known && (
          <span className="row tight">
            <span className="dim">{t('otherTenants')}</span>
            <span className="num dim">{formatCards(pool.held_milli - known)}</span>
          </span>
        )}
      </div>
      <section className="scroll gap" aria-label={t('models')} tabIndex={0}>
        <table className="tbl">
          <thead>
            <tr>
              <th>{t('model')}</th>
              <th className="right">{t('cards')}</th>
              <th className="right">{t('free')}</th>
              <th className="right">{t('wholeFree')}</th>
              <th className="right">{t('largest')}</th>
            </tr>
          </thead>
          <tbody>
            {pool.models.map((model) => (
              <tr key={model.model}>
                <td className="strong">{model.model}</td>
                <td className="right num">{formatNumber(model.cards)}</td>
                <td className="right num">{formatCards(model.free_milli)}</td>
                <td className="right num">{formatNumber(model.whole_free)}</td>
                <td className="right num nowrap">
                  <Largest model={model} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </Panel>
  )
}

function Largest({ model }: { model: ModelRoom }) {
  const { t } = useTranslation('overview')
  if (model.whole_on_one_node > 0) return <>{t('wholeOnNode', { count: model.whole_on_one_node })}</>
  if (model.largest_milli === 0) return <>{t('nothing')}</>
  return <>{formatShare(model.largest_milli, model.largest_bytes)}</>
}

function QueuePanel({ pool }: PoolProps) {
  const { t } = useTranslation('overview')
  return (
    <Panel title={t('queue')} hint={t('waiting', { count: pool.waiting })}>
      {pool.queue.length === 0 ? (
        <p className="sub small">{t('noQueue')}</p>
      ) : (
        <section className="scroll" aria-label={t('queue')} tabIndex={0}>
          <table className="tbl">
            <thead>
              <tr>
                <th>{t('job')}</th>
                <th className="only-l">{t('asksFor')}</th>
                <th className="only-l">{t('waited')}</th>
                <th className="right">{t('start')}</th>
              </tr>
            </thead>
            <tbody>
              {pool.queue.map((row) => (
                <tr key={row.place}>
                  <td>
                    {row.id ? (
                      <Link className="link strong" to="/jobs/$job" params={{ job: row.id }}>
                        {row.job}
                      </Link>
                    ) : (
                      <span className="sub">{t('others', { count: row.count ?? 1 })}</span>
                    )}
                  </td>
                  <td className="sub nowrap only-l">{row.share ?? UNKNOWN}</td>
                  <td className="sub nowrap only-l">{formatDuration(row.waited_seconds)}</td>
                  <td className="right nowrap strong">{row.start_ns ? formatClock(row.start_ns) : UNKNOWN}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Panel>
  )
}

function AttentionPanel({ pool }: PoolProps) {
  const { t } = useTranslation('overview')
  const isWell = pool.failing.length === 0 && pool.silent_nodes.length === 0
  return (
    <Panel title={t('attention')}>
      {isWell && <p className="sub small">{t('allWell')}</p>}
      <div className="grid">
        {pool.failing.map((card) => (
          <div key={card.device} className="row top-aligned">
            <State state={card.state === 'draining' ? 'draining' : card.health} />
            <div className="grow">
              <div className="strong">
                {card.device} · {card.model}
              </div>
              <div className="small sub">
                <ServerText text={card.reason} />
              </div>
            </div>
          </div>
        ))}
        {pool.silent_nodes.map((node) => (
          <div key={node} className="row">
            <State state="lost" />
            <span>{t('silent', { node })}</span>
          </div>
        ))}
        {pool.failing_total > pool.failing.length && (
          <span className="small sub">{t('more', { count: pool.failing_total - pool.failing.length })}</span>
        )}
      </div>
    </Panel>
  )
}

function MinePanel({ pool }: PoolProps) {
  const { t } = useTranslation('overview')
  const { mine } = pool
  return (
    <Panel
      title={t('mine')}
      hint={t('mineCounts', { running: mine.running + mine.starting, pending: mine.pending })}
      right={
        <Link className="small sub link" to="/jobs">
          {t('allJobs')}
        </Link>
      }
    >
      {mine.recent.length === 0 ? (
        <Empty>
          <p>{t('noJobs')}</p>
          <code className="mono">gpupool submit --gpu 0.25 --memory 8GiB -- python train.py</code>
        </Empty>
      ) : (
        <section className="scroll" aria-label={t('mine')} tabIndex={0}>
          <table className="tbl">
            <thead>
              <tr>
                <th>{t('job')}</th>
                <th>{t('state')}</th>
                <th className="only-l">{t('share')}</th>
                <th className="right">{t('use')}</th>
              </tr>
            </thead>
            <tbody>
              {mine.recent.map((job) => (
                <tr key={job.id}>
                  <td>
                    <Link className="link strong nowrap" to="/jobs/$job" params={{ job: job.id }}>
                      {job.name}
                    </Link>
                  </td>
                  <td>
                    <State state={findState(job)} />
                  </td>
                  <td className="sub nowrap only-l">{formatShare(job.gpu_milli, job.memory_bytes, job.count)}</td>
                  <td className="right">
                    <Use ratio={job.use?.share_percent == null ? null : job.use.share_percent / 100} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </Panel>
  )
}

function TodayPanel({ pool }: PoolProps) {
  const { t } = useTranslation('overview')
  const { today } = pool
  const hours = (value: number | null | undefined) =>
    value === null || value === undefined ? UNKNOWN : formatNumber(value / MILLISECONDS_PER_CARD_HOUR, 1)
  return (
    <Panel title={t('today')} hint={t('todayHint')}>
      <dl className="facts">
        <Fact name={t('heldHours')}>{hours(today.held_card_milliseconds)}</Fact>
        {today.idle_card_milliseconds !== null && today.idle_card_milliseconds !== undefined && (
          <Fact name={t('idleHours')}>{hours(today.idle_card_milliseconds)}</Fact>
        )}
        <Fact name={t('cost')}>
          {today.cost_micro === null || today.cost_micro === undefined
            ? UNKNOWN
            : formatMoney(today.cost_micro / MICRO, today.currency ?? '')}
        </Fact>
      </dl>
      {(today.cost_micro === null || today.cost_micro === undefined) && <p className="small sub">{t('noPrice')}</p>}
    </Panel>
  )
}
