// Cards that their jobs do not use: for how long, what that costs, and what follows.
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useTranslation } from 'react-i18next'
import { type IdleJob, listIdleJobs } from '../../api/idle'
import { formatCards, formatClock, formatDuration, formatMoney, UNKNOWN } from '../../ui/format'
import { Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'

const REFRESH_MS = 30_000
const MICRO = 1e6
/** Rows of the panel: the page has no room for more. */
const MOST = 8

export function IdlePanel() {
  const { t } = useTranslation('overview')
  const answer = useQuery({ queryKey: ['idle'], queryFn: listIdleJobs, refetchInterval: REFRESH_MS })
  const jobs = answer.data ?? []
  const held = jobs.reduce((sum, job) => sum + job.gpu_milli, 0)
  return (
    <Panel title={t('idle')} hint={answer.data && t('idleHint', { cards: formatCards(held), count: jobs.length })}>
      {answer.isError && <Refusal error={answer.error} />}
      {answer.data && jobs.length === 0 && <p className="sub small">{t('noIdle')}</p>}
      {jobs.length > 0 && (
        <section className="scroll" aria-label={t('idle')} tabIndex={0}>
          <table className="tbl">
            <thead>
              <tr>
                <th>{t('job')}</th>
                <th className="right">{t('idleFor')}</th>
                <th className="right only-l">{t('costPerHour')}</th>
                <th className="right">{t('nextStep')}</th>
              </tr>
            </thead>
            <tbody>
              {jobs.slice(0, MOST).map((job) => (
                <IdleRow key={job.job} job={job} />
              ))}
            </tbody>
          </table>
        </section>
      )}
      {jobs.length > MOST && <code className="mono small">gpupool idle list</code>}
    </Panel>
  )
}

function IdleRow({ job }: { job: IdleJob }) {
  const { t } = useTranslation('overview')
  const cost = job.cost_per_hour_micro
  return (
    <tr>
      <td>
        <Link className="link strong nowrap" to="/jobs/$job" params={{ job: job.job }}>
          {job.name}
        </Link>
      </td>
      <td className="right num nowrap">{formatDuration(job.idle_seconds)}</td>
      <td className="right num nowrap only-l">
        {cost === null || cost === undefined ? UNKNOWN : formatMoney(cost / MICRO, job.currency)}
      </td>
      <td className="right nowrap">
        {job.next_act ? t('stepAt', { step: t(`steps.${job.next_act}`), time: formatClock(job.next_ns) }) : t('noStep')}
      </td>
    </tr>
  )
}
