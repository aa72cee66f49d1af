// Schedules: which jobs come again and when, what became of the last instants; pausing, running now, removing.
import { Button } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Tagged } from '../../api/lists'
import { useSession } from '../../app/session'
import { Answer } from '../../ui/Answer'
import { FormDialog } from '../../ui/FormDialog'
import { formatClock, formatNumber } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'
import { Refusal } from '../../ui/Refusal'
import { ServerText } from '../../ui/ServerText'
import { State } from '../../ui/State'
import { type Column, Table } from '../../ui/Table'
import { ScheduleDialog } from './ScheduleDialog'
import {
  actOn,
  fetchSchedule,
  findNext,
  listRuns,
  listSchedules,
  removeSchedule,
  type Schedule,
  type ScheduleAct,
  type ScheduleRun,
  writeCommand,
} from './schedules'

export function SchedulesPage() {
  const { t } = useTranslation('schedules')
  const client = useQueryClient()
  const session = useSession().data
  const mayRun = session?.permissions.includes('run') ?? false
  const mayManage = session?.permissions.includes('manage-tenant') ?? false
  const found = useQuery({ queryKey: ['schedules'], queryFn: listSchedules })
  const [chosen, setChosen] = useState<string | null>(null)
  const [removed, setRemoved] = useState<Schedule | null>(null)
  const [edited, setEdited] = useState<{ schedule: Tagged<Schedule> | null } | null>(null)
  const renew = () => void client.invalidateQueries({ queryKey: ['schedules'] })
  const act = useMutation({
    mutationFn: (asked: { id: string; act: ScheduleAct }) => actOn(asked.id, asked.act),
    onSettled: renew,
  })
  const open = useMutation({
    mutationFn: (id: string) => fetchSchedule(id),
    onSuccess: (schedule) => setEdited({ schedule }),
  })
  const schedules = found.data ?? []
  const active = schedules.filter((schedule) => schedule.state === 'active').length
  const sentence =
    found.data &&
    (schedules.length === 0
      ? t('factNone')
      : t('fact', {
          count: schedules.length,
          active: formatNumber(active),
          next: formatClock(findNext(schedules)),
        }))
  const button = (schedule: Schedule, name: ScheduleAct) => (
    <Button
      size="compact-xs"
      variant="default"
      aria-label={`${t(name)} ${schedule.name}`}
      loading={act.isPending && act.variables.id === schedule.id && act.variables.act === name}
      onClick={() => act.mutate({ id: schedule.id, act: name })}
    >
      {t(name)}
    </Button>
  )
  const columns: Column<Schedule>[] = [
    {
      title: t('name'),
      cell: (schedule) => (
        <>
          <Button
            size="compact-xs"
            variant="subtle"
            px={0}
            aria-expanded={schedule.id === chosen}
            onClick={() => setChosen(schedule.id === chosen ? null : schedule.id)}
          >
            {schedule.name}
          </Button>
          <br />
          <span className="small sub word">{`${schedule.tenant} / ${schedule.user}`}</span>
        </>
      ),
    },
    {
      title: t('state'),
      cell: (schedule) => (
        <>
          <State state={schedule.state} />
          {schedule.reason !== '' && (
            <div className="small sub word">
              <ServerText text={schedule.reason} />
            </div>
          )}
        </>
      ),
    },
    {
      title: t('when'),
      cell: (schedule) => (
        <>
          <code className="mono nowrap">{schedule.cron}</code>
          <br />
          <span className="small sub">{schedule.time_zone}</span>
        </>
      ),
    },
    { title: t('next'), right: true, cell: (schedule) => formatClock(schedule.next_ns) },
    { title: t('overlap'), minor: true, cell: (schedule) => t(`overlaps.${schedule.overlap}`) },
    {
      title: t('command'),
      minor: true,
      cell: (schedule) => <code className="mono word">{writeCommand(schedule.command ?? [])}</code>,
    },
    {
      title: '',
      cell: (schedule) =>
        mayRun &&
        (mayManage || schedule.user === session?.user) && (
          <span className="row wrap">
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${t('change')} ${schedule.name}`}
              loading={open.isPending && open.variables === schedule.id}
              onClick={() => open.mutate(schedule.id)}
            >
              {t('change')}
            </Button>
            {button(schedule, 'run')}
            {button(schedule, schedule.state === 'active' ? 'pause' : 'resume')}
            <Button
              size="compact-xs"
              variant="default"
              aria-label={`${t('remove')} ${schedule.name}`}
              onClick={() => setRemoved(schedule)}
            >
              {t('remove')}
            </Button>
          </span>
        ),
    },
  ]
  const create = mayRun && (
    <Button size="xs" onClick={() => setEdited({ schedule: null })}>
      {t('newSchedule')}
    </Button>
  )
  return (
    <Page
      title={t('title')}
      sentence={sentence}
      actions={schedules.length > 0 && create}
      command="gpupool schedule list"
    >
      {act.isError && <Refusal error={act.error} />}
      {open.isError && <Refusal error={open.error} />}
      <div className="grid">
        <Panel title={t('schedules')} hint={t('schedulesHint')}>
          <Answer query={found}>
            {found.isSuccess && schedules.length === 0 && (
              <Empty action={create}>
                {t('none')}{' '}
                <code className="mono">
                  gpupool schedule add nightly --cron '0 2 * * *' -- --gpu 0.5 -- python train.py
                </code>
              </Empty>
            )}
            {schedules.length > 0 && (
              <Table label={t('schedules')} columns={columns} rows={schedules} rowKey={(schedule) => schedule.id} />
            )}
          </Answer>
        </Panel>
        {chosen !== null && schedules.some((schedule) => schedule.id === chosen) && (
          <RunsPanel key={chosen} id={chosen} />
        )}
      </div>
      {edited && (
        <ScheduleDialog
          schedule={edited.schedule}
          onDone={() => {
            setEdited(null)
            renew()
          }}
          onClose={() => setEdited(null)}
        />
      )}
      {removed && (
        <FormDialog
          title={t('removeTitle', { name: removed.name })}
          confirm={t('removeNow', { name: removed.name })}
          danger
          act={() => removeSchedule(removed.id)}
          onDone={() => {
            setRemoved(null)
            renew()
          }}
          onClose={() => setRemoved(null)}
        >
          {() => <p>{t('removeText')}</p>}
        </FormDialog>
      )}
    </Page>
  )
}

/** What became of the latest instants of a schedule. */
function RunsPanel({ id }: { id: string }) {
  const { t } = useTranslation('schedules')
  const found = useQuery({ queryKey: ['schedules', 'runs', id], queryFn: () => listRuns(id) })
  const runs = found.data ?? []
  const columns: Column<ScheduleRun>[] = [
    { title: t('due'), cell: (run) => <span className="nowrap">{formatClock(run.due_ns)}</span> },
    { title: t('outcome'), cell: (run) => t(`outcomes.${run.outcome}`) },
    {
      title: t('job'),
      cell: (run) =>
        run.job && (
          <Link className="link word" to={'/jobs/$job' as never} params={{ job: run.job } as never}>
            {run.job}
          </Link>
        ),
    },
    {
      title: t('text'),
      minor: true,
      cell: (run) => (
        <span className="word">
          <ServerText text={run.text} />
        </span>
      ),
    },
  ]
  return (
    <Panel title={t('runs')}>
      <Answer query={found}>
        {found.isSuccess && runs.length === 0 && <Empty>{t('noRuns')}</Empty>}
        {runs.length > 0 && (
          <Table label={t('runs')} columns={columns} rows={runs} rowKey={(run) => `${run.due_ns} ${run.at_ns}`} />
        )}
      </Answer>
    </Panel>
  )
}
