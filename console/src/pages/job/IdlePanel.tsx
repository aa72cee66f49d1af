// Whether a job is idle, what its policy does next, and the button that keeps it.
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import { getIdleness, type IdleJob, keepJob } from '../../api/idle'
import type { Job } from '../../api/jobs'
import { formatClock, formatDuration, UNKNOWN } from '../../ui/format'
import { Fact, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'

/** Activity comes without an event: streams and samples say nothing to a page. */
const REFRESH_MS = 10_000

export function IdlePanel({ job, mayAct }: { job: Job; mayAct: boolean }) {
  const { t } = useTranslation('job')
  const queries = useQueryClient()
  const key = ['job', job.id, 'idle']
  const answer = useQuery({ queryKey: key, queryFn: () => getIdleness(job.id), refetchInterval: REFRESH_MS })
  const keep = useMutation({
    mutationFn: () => keepJob(job.id),
    onSuccess: (found) => queries.setQueryData(key, found),
  })
  const idle = answer.data
  if (!idle) return null
  const mayKeep = mayAct && (idle.keeps_left ?? 0) > 0 && (idle.keep_seconds ?? 0) > 0
  return (
    <Panel
      title={t('idle')}
      right={
        mayKeep && (
          <Button variant="default" size="xs" loading={keep.isPending} onClick={() => keep.mutate()}>
            {t('keep', { time: formatDuration(idle.keep_seconds) })}
          </Button>
        )
      }
    >
      <dl className="facts">
        <Fact name={t('idleState')}>{t(`idleStates.${idle.state}`)}</Fact>
        <Fact name={t('idleFor')}>{formatDuration(idle.idle_seconds)}</Fact>
        <Fact name={t('idleNext')}>
          <NextStep idle={idle} />
        </Fact>
        {idle.keep_until_ns !== null && idle.keep_until_ns !== undefined && (
          <Fact name={t('keptUntil')}>{formatClock(idle.keep_until_ns)}</Fact>
        )}
        {idle.keeps_left !== null && idle.keeps_left !== undefined && (
          <Fact name={t('keepsLeft')}>{idle.keeps_left}</Fact>
        )}
      </dl>
      <p className="small sub" lang={idle.rule ? 'en' : undefined}>
        {idle.rule ?? t('noIdleRule')}
      </p>
      {idle.waits_to_grow && <p className="small">{t('waitsToGrow')}</p>}
      {keep.isError && <Refusal error={keep.error} />}
    </Panel>
  )
}

function NextStep({ idle }: { idle: IdleJob }) {
  const { t } = useTranslation('job')
  if (idle.state === 'unknown') return <>{UNKNOWN}</>
  if (!idle.next_act) return <>{t('noStep')}</>
  return <>{t('stepAt', { step: t(`steps.${idle.next_act}`), time: formatClock(idle.next_ns) })}</>
}
