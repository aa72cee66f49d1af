// One job: its phases and their reason, its log, its use, and the acts on it.

import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { explainJob, getJob, hasEnded, type Job } from '../../api/jobs'
import { Problem } from '../../api/problem'
import { mayChangeOf, useSession } from '../../app/session'
import { formatBytes, formatClock, formatDuration, formatShare, secondsBetween, UNKNOWN } from '../../ui/format'
import { Empty, Fact, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { ShareBar, Tenant, Use } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { findState } from '../jobs/JobTable'
import { joinWords } from '../request/words'
import { EnterPanel } from './EnterPanel'
import { IdlePanel } from './IdlePanel'
import { LogPanel } from './LogPanel'
import { listPhases, type PhaseName } from './phases'
import { ResizeDialog } from './ResizeDialog'
import { StopDialog } from './StopDialog'
import { UseChart } from './UseChart'

/** Samples of a job's use come every few seconds, and no event says so. */
const SAMPLE_MS = 5000
const NOT_FOUND = 404

export function JobPage() {
  const { t } = useTranslation('job')
  const { job: id = '' } = useParams({ strict: false })
  const answer = useQuery({
    queryKey: ['job', id],
    queryFn: () => getJob(id),
    refetchInterval: (query) => (query.state.data?.state === 'running' ? SAMPLE_MS : false),
  })
  // A dialog, a terminal and a refusal are of one job: another one begins without them.
  if (answer.data) return <JobView key={id} job={answer.data} />
  const isMissing = answer.error instanceof Problem && answer.error.status === NOT_FOUND
  return (
    <Page title={id}>
      {isMissing && (
        <Empty
          action={
            <Link className="chip" to="/jobs">
              {t('toJobs')}
            </Link>
          }
        >
          {t('missing', { id })}
        </Empty>
      )}
      {answer.isError && !isMissing && <Refusal error={answer.error} />}
      {answer.isPending && <p className="sub">{t('shell:loading')}</p>}
    </Page>
  )
}

function JobView({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const session = useSession()
  const [dialog, setDialog] = useState<'stop' | 'resize' | null>(null)
  const close = () => setDialog(null)
  const mayRun = session.data?.permissions.includes('run') ?? false
  const mayChange = mayChangeOf(job.user, session.data)
  const isLive = !hasEnded(job)
  // To enter a job is to act as its user.
  const isOwn = session.data?.user === job.user && session.data.tenant === job.tenant
  const mayManage = session.data?.permissions.includes('manage-pool') ?? false
  const mayEnter = mayRun && job.state === 'running' && (isOwn || mayManage)
  const isPrivate = job.private
  return (
    <Page
      name={job.name}
      title={
        <span className="row wrap">
          {job.name}
          <State state={findState(job)} />
        </span>
      }
      sentence={
        <span className="row wrap tight">
          <Tenant name={job.tenant} /> · {job.project} · {job.user} ·{' '}
          {formatShare(job.gpu_milli, job.memory_bytes, job.count)} {job.model ?? job.seats?.[0]?.model}
        </span>
      }
      command={`gpupool show ${job.id}`}
      actions={
        mayRun && (
          <>
            {mayChange && job.state === 'running' && (
              <Button variant="default" onClick={() => setDialog('resize')}>
                {t('resize')}
              </Button>
            )}
            <Button variant="default" component={Link} to="/request" search={{ clone: job.id } as never}>
              {t('clone')}
            </Button>
            {mayChange && isLive && (
              <Button className="danger" variant="outline" onClick={() => setDialog('stop')}>
                {t('stop')}
              </Button>
            )}
          </>
        )
      }
    >
      <Timeline job={job} />
      <div className="grid gs gap top-aligned">
        <div className="grid">
          {mayEnter && <EnterPanel job={job} />}
          {isPrivate ? (
            <Panel title={t('log')}>
              <p className="sub">{t('private')}</p>
            </Panel>
          ) : (
            <LogPanel job={job.id} />
          )}
        </div>
        <div className="grid">
          <CardsPanel job={job} />
          <UsePanel job={job} />
          {job.state === 'running' && job.count > 0 && <IdlePanel job={job} mayAct={mayChange} />}
          <FactsPanel job={job} />
        </div>
      </div>
      {dialog === 'stop' && <StopDialog job={job} onClose={close} />}
      {dialog === 'resize' && <ResizeDialog job={job} onClose={close} />}
    </Page>
  )
}

const PHASE_COLOURS: Record<PhaseName, string> = {
  queued: 'var(--wait)',
  starting: 'var(--ink-3)',
  running: 'var(--run)',
}

function Timeline({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const phases = listPhases(job)
  const total = phases.reduce((sum, phase) => sum + phase.seconds, 0) || 1
  const latestNs = job.started_ns && job.max_seconds ? job.started_ns + job.max_seconds * 1e9 : null
  return (
    <Panel
      title={t('timeline')}
      right={
        <span className="small sub">
          {t('submitted', { time: formatClock(job.submitted_ns) })}
          {latestNs !== null && !hasEnded(job) && ` · ${t('endsBy', { time: formatClock(latestNs) })}`}
          {job.ended_ns && ` · ${t('ended', { time: formatClock(job.ended_ns) })}`}
        </span>
      }
    >
      <div className="phases">
        {phases.map((phase) => (
          <div key={phase.name} style={{ flexGrow: Math.max(0.12, phase.seconds / total) }}>
            <div className="phase" style={{ background: PHASE_COLOURS[phase.name] }} />
            <div className="small">
              <b className="strong">{t(`phase.${phase.name}`)}</b>{' '}
              <span className="num sub nowrap">{formatDuration(phase.seconds)}</span>
            </div>
          </div>
        ))}
      </div>
      <Reason job={job} />
    </Panel>
  )
}

/** Why it waits, why it is where it is, or how it ended. */
function Reason({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const isWaiting = job.state === 'pending'
  const explanation = useQuery({
    queryKey: ['job', job.id, 'explain'],
    queryFn: () => explainJob(job.id),
    enabled: isWaiting,
  })
  const found = explanation.data
  if (!isWaiting) {
    const words = hasEnded(job) ? job.reason : job.why
    const exit = job.exit_code ?? null
    return (
      <div className="reason small">
        <b className="strong">{t(hasEnded(job) ? 'howEnded' : 'whyHere')}</b>{' '}
        <span className="sub">
          {words ? <ServerText text={words} /> : exit === null && t('noReason')}
          {exit !== null && ` ${t('exit', { code: exit })}`}
          {job.signal ? ` ${t('signal', { signal: job.signal })}` : ''}
        </span>
      </div>
    )
  }
  return (
    <div className="reason small">
      <b className="strong">{t('whyWaits')}</b>{' '}
      <span className="sub">
        <ServerText text={found?.sentence ?? job.reason} />
      </span>
      <dl className="facts left">
        {found?.start_ns && (
          <Fact name={t(found.start_promised ? 'promisedStart' : 'expectedStart')}>{formatClock(found.start_ns)}</Fact>
        )}
        {found?.ahead !== null && found?.ahead !== undefined && <Fact name={t('ahead')}>{found.ahead}</Fact>}
        {found?.nearest && (
          <Fact name={t('nearest')}>
            <ServerText text={found.nearest} />
          </Fact>
        )}
        {found && (found.holders ?? []).length > 0 && (
          <Fact name={t('holders')}>
            {(found.holders ?? []).map((holder) => (
              <div key={holder}>
                <ServerText text={holder} />
              </div>
            ))}
          </Fact>
        )}
      </dl>
      {found && (found.hints ?? []).length > 0 && (
        <ul className="hints">
          {(found.hints ?? []).map((hint) => (
            <li key={hint}>
              <ServerText text={hint} />
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}

function CardsPanel({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const seats = job.seats ?? []
  return (
    <Panel title={t('cards')}>
      {seats.length === 0 && <p className="sub small">{t('noCards')}</p>}
      <div className="grid cards">
        {seats.map((seat) => (
          <div key={seat.uuid}>
            <div className="small sub">
              {seat.device} · {seat.model}
            </div>
            <ShareBar
              height={22}
              label={`${seat.device}: ${formatShare(seat.gpu_milli, seat.memory_bytes)}`}
              pieces={[{ width: seat.gpu_milli / 1000, tenant: job.tenant }]}
            />
          </div>
        ))}
      </div>
    </Panel>
  )
}

const asRatio = (percent: number | null | undefined): number | null =>
  percent === null || percent === undefined ? null : percent / 100

function UsePanel({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const use = job.use
  if (!use) return null
  const milliseconds = (value: number | null | undefined) =>
    value === null || value === undefined ? UNKNOWN : formatDuration(value / 1000)
  return (
    <Panel title={t('use')} hint={t('sampled', { time: formatClock(use.sampled_ns) })}>
      <UseChart job={job.id} />
      <dl className="facts">
        <Fact name={t('compute')}>
          <Use ratio={asRatio(use.share_percent)} />
        </Fact>
        <Fact name={t('memory')}>
          <Use ratio={asRatio(use.memory_percent)} />
        </Fact>
        <Fact name={t('memoryUsed')}>{formatBytes(use.memory_bytes)}</Fact>
        <Fact name={t('gpuTime')}>{milliseconds(use.gpu_milliseconds)}</Fact>
        <Fact name={t('waited')}>{milliseconds(use.wait_milliseconds)}</Fact>
        <Fact name={t('throttled')}>{milliseconds(use.throttled_milliseconds)}</Fact>
        <Fact name={t('refusals')}>{use.refusals ?? UNKNOWN}</Fact>
      </dl>
    </Panel>
  )
}

function FactsPanel({ job }: { job: Job }) {
  const { t } = useTranslation('job')
  const command = job.command ?? []
  return (
    <Panel title={t('facts')}>
      <dl className="facts">
        <Fact name={t('id')}>
          <span className="mono">{job.id}</span>
        </Fact>
        <Fact name={t('share')}>{formatShare(job.gpu_milli, job.memory_bytes, job.count)}</Fact>
        <Fact name={t('sharing')}>{job.sharing}</Fact>
        <Fact name={t('fence')}>{job.fence || UNKNOWN}</Fact>
        <Fact name={t('priority')}>{job.priority}</Fact>
        <Fact name={t('runFor')}>{formatDuration(secondsBetween(job.started_ns, job.ended_ns))}</Fact>
        <Fact name={t('limit')}>{job.max_seconds ? formatDuration(job.max_seconds) : t('noLimit')}</Fact>
        {job.network && <Fact name={t('network')}>{`${job.network} ${job.address ?? ''}`}</Fact>}
        {job.array && <Fact name={t('array')}>{job.array}</Fact>}
        {(job.after ?? []).map((end) => (
          <Fact key={end.id} name={t('awaits')}>
            {`${end.job} (${t(`awaitedEnd_${end.condition}`)}): ${end.ending || t('awaitedOpen')}`}
          </Fact>
        ))}
        {Boolean(job.retries) && (
          <Fact name={t('attempt')}>{t('attemptOf', { attempt: job.attempt, most: (job.retries ?? 0) + 1 })}</Fact>
        )}
        {job.retry_ns && <Fact name={t('nextAttempt')}>{formatClock(job.retry_ns)}</Fact>}
        {(job.attempts ?? []).map((one) => (
          <Fact key={one.number} name={t('attemptNumber', { number: one.number })}>
            {t(`shell:state.${one.state}`)}: <ServerText text={one.reason} />
          </Fact>
        ))}
      </dl>
      {job.fence_why && (
        <p className="small sub">
          <ServerText text={job.fence_why} />
        </p>
      )}
      {!job.private && command.length > 0 && (
        <pre className="code mono" tabIndex={0}>
          {joinWords(command)}
        </pre>
      )}
    </Panel>
  )
}
