// Make a schedule, or change one: its instants, what happens beside an earlier job, and what it submits.
import { Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useTranslation } from 'react-i18next'
import type { Tagged } from '../../api/lists'
import type { JobBody } from '../../api/preview'
import { isRefused, Problem } from '../../api/problem'
import { renderTemplate } from '../../api/templates'
import { useSession } from '../../app/session'
import { Conflict, useConflict } from '../../ui/Conflict'
import { type FieldProblem, FormDialog, findProblem } from '../../ui/FormDialog'
import {
  buildBody,
  FIRST_TEMPLATE,
  type Form,
  findField,
  isFault,
  mergeBody,
  readBody,
  TEMPLATES,
} from '../request/form'
import { isComplete, readValues } from '../templates/fields'
import { type ChosenTemplate, JobParts, type JobSource } from './JobParts'
import { NextInstants, useInstants } from './NextInstants'
import {
  addSchedule,
  type Draft,
  fetchSchedule,
  isDeadline,
  jobOf,
  listZones,
  makeDraft,
  makeTimes,
  OVERLAPS,
  type Overlap,
  putSchedule,
  type Schedule,
} from './schedules'

interface ScheduleDialogProps {
  /** Null: a new one. */
  readonly schedule: Tagged<Schedule> | null
  onDone(): void
  onClose(): void
}

const BAD_SCHEDULE = 'GP-1084'
const FIELD_OF_CODE = { [BAD_SCHEDULE]: 'cron', 'GP-1003': 'name', 'GP-2006': 'name' }

export function ScheduleDialog({ schedule, onDone, onClose }: ScheduleDialogProps) {
  const { t } = useTranslation('schedules')
  const { t: sayRequest } = useTranslation('request')
  const user = useSession().data?.user ?? ''
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone
  const before = schedule?.body ?? null
  const [draft, setDraft] = useState<Draft>(() => makeDraft(before, here))
  const [job, setJob] = useState<JobBody | null>(() => jobOf(before))
  const written = job === null ? null : readBody(job)
  const [form, setForm] = useState<Form>(() => written ?? (TEMPLATES[FIRST_TEMPLATE] as Form))
  const [chosen, setChosen] = useState<ChosenTemplate | null>(null)
  const sources = listSources(before, written !== null, user)
  const [source, setSource] = useState<JobSource>(sources[0] ?? 'form')
  const conflict = useConflict<Schedule>(schedule?.tag ?? '', () => fetchSchedule(before?.id ?? '').catch(readGone))
  const instants = useInstants(draft.cron, draft.timeZone)
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part })
  const body = buildBody(form)
  const fault = source === 'form' && isFault(body) ? body : null
  const isReady =
    (before !== null || draft.name.trim() !== '') &&
    isDeadline(draft.deadlineMinutes) &&
    !isRefused(instants.error) &&
    fault === null &&
    (source !== 'template' || isFilled(chosen))

  const findJob = async (): Promise<JobBody | null> => {
    if (source === 'same') return null
    if (source === 'template') return chosen === null ? null : renderJob(chosen)
    const now = buildBody(form)
    if (isFault(now)) throw new Error(now.key)
    const unnamed: JobBody = { ...now, name: null }
    return job === null ? unnamed : mergeBody(job, unnamed)
  }
  const act = async () => {
    const asked = await findJob()
    const times = makeTimes(draft)
    if (before !== null) {
      return conflict.guard((tag) => putSchedule(before.id, tag, { ...times, job: asked }))
    }
    if (asked === null) throw new Error('a schedule submits a job')
    return addSchedule({ ...times, name: draft.name.trim(), job: asked })
  }
  return (
    <FormDialog
      title={before === null ? t('newSchedule') : t('changeTitle', { name: before.name })}
      confirm={t('save')}
      isReady={isReady}
      fieldOfCode={FIELD_OF_CODE}
      wide
      act={act}
      onDone={onDone}
      onClose={onClose}
      below={(error) => (
        <Conflict
          error={error}
          state={conflict}
          words={(theirs) => t('theirs', { cron: theirs.cron, zone: theirs.time_zone })}
          take={(theirs) => {
            const theirJob = jobOf(theirs)
            setDraft(makeDraft(theirs, here))
            setJob(theirJob)
            setForm((theirJob && readBody(theirJob)) ?? form)
          }}
        />
      )}
    >
      {(problem) => (
        <>
          <div className="row wrap fields-row">
            {before === null && (
              <TextInput
                className="third"
                label={t('name')}
                data-autofocus
                value={draft.name}
                error={problem('name')}
                onChange={(event) => set({ name: event.currentTarget.value })}
              />
            )}
            <TextInput
              className="third"
              label={t('cron')}
              description={t('cronHint')}
              inputWrapperOrder={['label', 'input', 'description', 'error']}
              data-autofocus={before !== null || undefined}
              value={draft.cron}
              error={problem('cron') ?? findProblem(instants.error, 'cron')}
              onChange={(event) => set({ cron: event.currentTarget.value })}
              classNames={{ input: 'mono' }}
              spellCheck={false}
            />
            <Select
              className="third"
              label={t('timeZone')}
              searchable
              allowDeselect={false}
              limit={60}
              data={listZones(here, draft.timeZone)}
              value={draft.timeZone}
              error={problem('time_zone') ?? findProblem(instants.error, 'time_zone')}
              onChange={(value) => set({ timeZone: value ?? draft.timeZone })}
            />
          </div>
          <NextInstants found={instants} timeZone={draft.timeZone} />
          <div className="row wrap fields-row">
            <Select
              className="third"
              label={t('overlap')}
              allowDeselect={false}
              data={OVERLAPS.map((value) => ({ value, label: t(`overlaps.${value}`) }))}
              value={draft.overlap}
              onChange={(value) => set({ overlap: (value as Overlap | null) ?? draft.overlap })}
            />
            <TextInput
              className="third"
              label={t('deadline')}
              inputMode="numeric"
              value={draft.deadlineMinutes}
              error={
                problem('deadline_seconds') ?? (isDeadline(draft.deadlineMinutes) ? undefined : t('wrongDeadline'))
              }
              onChange={(event) => set({ deadlineMinutes: event.currentTarget.value })}
            />
          </div>
          <JobParts
            sources={sources}
            source={source}
            choose={setSource}
            form={form}
            change={(part) => setForm({ ...form, ...part })}
            errors={findErrors(
              problem,
              fault && [fault.field, sayRequest(`fault.${fault.key}`, { detail: fault.detail })],
            )}
            chosen={chosen}
            chooseTemplate={setChosen}
            problem={problem}
          />
        </>
      )}
    </FormDialog>
  )
}

/** A schedule's job is its owner's: others leave it as it is, and so does a form that has no fields for it. */
function listSources(schedule: Schedule | null, isReadable: boolean, user: string): readonly JobSource[] {
  if (schedule === null) return ['form', 'template']
  if (schedule.user !== user || schedule.job == null) return ['same']
  return isReadable ? ['form', 'template'] : ['same', 'template']
}

const isFilled = (chosen: ChosenTemplate | null): boolean => {
  if (chosen === null) return false
  const fields = chosen.template.document.fields ?? {}
  return isComplete(fields, readValues(fields, chosen.values))
}

async function renderJob({ template, values }: ChosenTemplate): Promise<JobBody> {
  const { document, tenant } = template
  const use = {
    values: readValues(document.fields ?? {}, values),
    owner: tenant ?? null,
    version: document.version,
    name: null,
  }
  const { job } = await renderTemplate(template.name, use, new AbortController().signal)
  return { ...job, name: null }
}

function readGone(error: unknown): null {
  if (error instanceof Problem && error.status === 404) return null
  throw error
}

const FORM_FIELDS = [
  'gpu_milli',
  'memory_bytes',
  'count',
  'model',
  'sharing',
  'priority',
  'max_seconds',
  'project',
  'argv',
  'cwd',
  'env',
]

/** What the server says of the fields of the job, and what the form itself does. */
function findErrors(problem: FieldProblem, fault: readonly [keyof Form, string] | null): Map<keyof Form, string> {
  const errors = new Map<keyof Form, string>()
  for (const name of FORM_FIELDS) {
    const field = findField(name)
    const said = problem(name)
    if (field !== null && said !== undefined) errors.set(field, said)
  }
  if (fault !== null) errors.set(...(fault as [keyof Form, string]))
  return errors
}
