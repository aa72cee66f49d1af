// Idle jobs: who holds cards without using them, what happens next by which policy, and what policies gave back.
import { Button } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatCards, formatClock, formatDuration, formatMoney, formatNumber, UNKNOWN } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { type Column, Table } from '../../ui/Table'
import {
  deletePolicy,
  getReport,
  type IdleJob,
  type IdlePolicy,
  type IdleSaving,
  listIdleJobs,
  listPolicies,
  sumHeld,
} from './idle'
import { PolicyDialog } from './PolicyDialog'

/** Activity comes without an event: samples say nothing to a page. */
const REFRESH_MS = 10_000
const SINCE = '7d'
const MICRO = 1e6
const MS_PER_HOUR = 3_600_000

export function IdlePage() {
  const { t } = useTranslation('idle')
  const jobs = useQuery({ queryKey: ['idle', 'jobs'], queryFn: listIdleJobs, refetchInterval: REFRESH_MS })
  const idle = jobs.data ?? []
  const sentence =
    jobs.data &&
    (idle.length === 0 ? t('factNone') : t('fact', { count: idle.length, cards: formatCards(sumHeld(idle), 2) }))
  const columns: Column<IdleJob>[] = [
    {
      title: t('job'),
      cell: (job) => (
        <Link className="link strong word" to={'/jobs/$job' as never} params={{ job: job.job } as never}>
          {job.name || job.job}
        </Link>
      ),
    },
    { title: t('owner'), minor: true, cell: (job) => <span className="word">{`${job.tenant} / ${job.user}`}</span> },
    { title: t('kind'), minor: true, cell: (job) => t(`kinds.${job.kind}`) },
    { title: t('idleFor'), right: true, cell: (job) => formatDuration(job.idle_seconds) },
    { title: t('holds'), right: true, cell: (job) => formatCards(job.gpu_milli, 2) },
    {
      title: t('cost'),
      right: true,
      minor: true,
      cell: (job) =>
        job.cost_per_hour_micro === null ? UNKNOWN : formatMoney(job.cost_per_hour_micro / MICRO, job.currency),
    },
    {
      title: t('then'),
      cell: (job) =>
        job.next_act === null
          ? t(job.rule === null ? 'noPolicy' : 'noStep')
          : t('stepAt', { step: t(`acts.${job.next_act}`), time: formatClock(job.next_ns) }),
    },
  ]
  return (
    <Page title={t('title')} sentence={sentence} command="gpupool idle list">
      <div className="grid">
        <Panel title={t('jobs')} hint={t('jobsHint')}>
          <Answer query={jobs}>
            {jobs.isSuccess && idle.length === 0 && <Empty>{t('noJobs')}</Empty>}
            {idle.length > 0 && <Table label={t('jobs')} columns={columns} rows={idle} rowKey={(job) => job.job} />}
          </Answer>
        </Panel>
        <PoliciesPanel />
        <ReportPanel />
      </div>
    </Page>
  )
}

function PoliciesPanel() {
  const { t } = useTranslation('idle')
  const client = useQueryClient()
  const session = useSession().data
  const permissions = session?.permissions ?? []
  const isPoolAdmin = permissions.includes('manage-pool')
  const mayManage = isPoolAdmin || permissions.includes('manage-tenant')
  const [edited, setEdited] = useState<{ policy: IdlePolicy | null } | null>(null)
  const [removed, setRemoved] = useState<IdlePolicy | null>(null)
  const found = useQuery({ queryKey: ['idle', 'policies'], queryFn: listPolicies })
  const policies = found.data ?? []
  const mayChange = (policy: IdlePolicy) => isPoolAdmin || (policy.by_tenant && mayManage)
  const edit = (policy: IdlePolicy, words: string) => (
    <Button
      size="compact-xs"
      variant="default"
      aria-label={`${words} ${policy.scope}`}
      onClick={() => setEdited({ policy })}
    >
      {words}
    </Button>
  )
  const create = mayManage && (
    <Button size="xs" onClick={() => setEdited({ policy: null })}>
      {t(isPoolAdmin ? 'newPolicy' : 'tighten')}
    </Button>
  )
  const columns: Column<IdlePolicy>[] = [
    {
      title: t('about'),
      cell: (policy) => (
        <span className="strong word" lang="en">
          {policy.scope}
        </span>
      ),
    },
    { title: t('mode'), cell: (policy) => t(`modes.${policy.mode}`) },
    {
      title: t('steps'),
      cell: (policy) => (
        <>
          {policy.steps.map((step) => (
            <div key={step.act} className="nowrap">
              {t('step', {
                step: t(`acts.${step.act}`),
                time: formatDuration(step.after_seconds),
              })}
              {step.gpu_milli != null && ` (${formatCards(step.gpu_milli, 2)})`}
            </div>
          ))}
        </>
      ),
    },
    {
      title: t('keeps'),
      minor: true,
      cell: (policy) => t('keepsValue', { count: policy.keeps_per_day, time: formatDuration(policy.keep_seconds) }),
    },
    {
      title: '',
      cell: (policy) =>
        mayChange(policy) ? (
          <span className="row wrap">
            {/* A pool admin's change of a tenant's own policy would be another policy, of the pool. */}
            {policy.by_tenant === !isPoolAdmin && edit(policy, t('change'))}
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${t('delete')} ${policy.scope}`}
              onClick={() => setRemoved(policy)}
            >
              {t('delete')}
            </Button>
          </span>
        ) : (
          mayManage && edit(policy, t('tightenIt'))
        ),
    },
  ]
  return (
    <Panel title={t('policies')} hint={t('policiesHint')} right={policies.length > 0 && create}>
      <Answer query={found}>
        {found.isSuccess && policies.length === 0 && (
          <Empty action={create}>
            {t('noPolicies')} <code className="mono">gpupool idle policy set --warn 50m --suspend 2h --dry-run</code>
          </Empty>
        )}
        {policies.length > 0 && (
          <Table label={t('policies')} columns={columns} rows={policies} rowKey={(policy) => policy.id} />
        )}
      </Answer>
      {edited && session && (
        <PolicyDialog
          policy={edited.policy}
          ownTenant={isPoolAdmin ? null : session.tenant}
          onDone={() => {
            setEdited(null)
            void client.invalidateQueries({ queryKey: ['idle'] })
          }}
          onClose={() => setEdited(null)}
        />
      )}
      {removed && (
        <FormDialog
          title={t('deleteTitle')}
          confirm={t('deleteNow')}
          danger
          act={() => deletePolicy(removed.id)}
          onDone={() => {
            setRemoved(null)
            void client.invalidateQueries({ queryKey: ['idle'] })
          }}
          onClose={() => setRemoved(null)}
        >
          {() => (
            <>
              <p lang="en">{removed.scope}</p>
              <p className="small sub">{t('deleteText')}</p>
            </>
          )}
        </FormDialog>
      )}
    </Panel>
  )
}

/** What policies gave back in a week, and what dry runs would have. */
function ReportPanel() {
  const { t } = useTranslation('idle')
  const found = useQuery({ queryKey: ['idle', 'report', SINCE], queryFn: () => getReport(SINCE) })
  const rows = found.data?.rows ?? []
  const currency = found.data?.currency ?? ''
  const leftOut = found.data?.left_out ?? 0
  const columns: Column<IdleSaving>[] = [
    { title: t('tenant'), cell: (row) => <span className="strong word">{row.tenant}</span> },
    { title: t('act'), cell: (row) => t(`acts.${row.act}`) },
    { title: t('mode'), cell: (row) => t(`modes.${row.dry_run ? 'dry-run' : 'on'}`) },
    { title: t('jobsCount'), right: true, cell: (row) => formatNumber(row.jobs) },
    {
      title: t('cardHours'),
      right: true,
      cell: (row) => (row.card_milliseconds === null ? UNKNOWN : formatNumber(row.card_milliseconds / MS_PER_HOUR, 1)),
    },
    {
      title: t('money'),
      right: true,
      minor: true,
      cell: (row) => (row.cost_micro === null ? UNKNOWN : formatMoney(row.cost_micro / MICRO, currency)),
    },
  ]
  return (
    <Panel title={t('report')} hint={t('reportHint')}>
      <Answer query={found}>
        {found.isSuccess && rows.length === 0 && <Empty>{t('noReport')}</Empty>}
        {rows.length > 0 && (
          <Table
            label={t('report')}
            columns={columns}
            rows={rows}
            rowKey={(row) => `${row.tenant} ${row.act} ${row.dry_run}`}
          />
        )}
        {leftOut > 0 && <p className="small sub">{t('leftOut', { steps: formatNumber(leftOut) })}</p>}
      </Answer>
    </Panel>
  )
}
