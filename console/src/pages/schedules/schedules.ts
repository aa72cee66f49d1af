/** Schedules: jobs that are submitted at the instants of a cron expression. */
import { request } from '../../api/client'
import { apiPath, getTagged, putTagged, send, type Tagged } from '../../api/lists'
import type { JobBody } from '../../api/preview'
import type { components } from '../../api/schema'
import { quote } from '../../ui/shell'

type Schemas = components['schemas']
export type Schedule = Schemas['ScheduleOut']
export type ScheduleBody = Schemas['ScheduleIn']
export type ScheduleChange = Schemas['ScheduleChangeIn']
export type Overlap = Schedule['overlap']
export type ScheduleRun = Schemas['ScheduleRunOut']
export type ScheduleAct = 'pause' | 'resume' | 'run'

export const listSchedules = async (): Promise<Schedule[]> =>
  (await request<{ items: Schedule[] }>('/api/v1/schedules')).items

export const listRuns = async (id: string): Promise<ScheduleRun[]> =>
  (await request<{ items: ScheduleRun[] }>(apiPath('schedules', id, 'runs'))).items

export const actOn = (id: string, act: ScheduleAct): Promise<unknown> => send('POST', apiPath('schedules', id, act))

export const removeSchedule = (id: string): Promise<void> => send('DELETE', apiPath('schedules', id))

export const OVERLAPS: readonly Overlap[] = ['skip', 'queue', 'replace']
const MINUTE_SECONDS = 60

/** What the form has of a schedule, beside its job: texts as they are typed. */
export interface Draft {
  name: string
  cron: string
  timeZone: string
  overlap: Overlap
  deadlineMinutes: string
}

export const makeDraft = (schedule: Schedule | null, timeZone: string): Draft => ({
  name: schedule?.name ?? '',
  cron: schedule?.cron ?? '0 2 * * *',
  timeZone: schedule?.time_zone ?? timeZone,
  overlap: schedule?.overlap ?? 'skip',
  deadlineMinutes: String((schedule?.deadline_seconds ?? 3600) / MINUTE_SECONDS),
})

const MOST_DEADLINE_MINUTES = 7 * 24 * 60

/** Whether a text is a deadline that a schedule may have. */
export function isDeadline(text: string): boolean {
  const minutes = Number(text)
  return text.trim() !== '' && minutes >= 1 && minutes <= MOST_DEADLINE_MINUTES
}

/** The times of a draft as the API has them. */
export const makeTimes = (draft: Draft): Omit<ScheduleChange, 'job'> => ({
  cron: draft.cron.trim(),
  time_zone: draft.timeZone,
  overlap: draft.overlap,
  deadline_seconds: Math.round(Number(draft.deadlineMinutes) * MINUTE_SECONDS),
})

/** The zones that a browser knows; UTC first, and those that are asked for in any case. */
export function listZones(...always: readonly string[]): string[] {
  return [...new Set(['UTC', ...always, ...Intl.supportedValuesOf('timeZone')])]
}

/** An instant by the clocks of a zone. */
export function formatInZone(atNs: number, timeZone: string, locale: string): string {
  const shape: Intl.DateTimeFormatOptions = {
    timeZone,
    weekday: 'short',
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
    timeZoneName: 'short',
  }
  return new Intl.DateTimeFormat(locale, shape).format(atNs / 1e6)
}

export async function listInstants(cron: string, timeZone: string): Promise<number[]> {
  const words = new URLSearchParams({ cron, time_zone: timeZone })
  return (await request<{ instants_ns: number[] }>(`/api/v1/schedule-instants?${words}`)).instants_ns
}

export const fetchSchedule = (id: string): Promise<Tagged<Schedule>> => getTagged<Schedule>(apiPath('schedules', id))

export const addSchedule = (body: ScheduleBody): Promise<Schedule> => send('POST', '/api/v1/schedules', body)

export const putSchedule = (id: string, tag: string, body: ScheduleChange): Promise<Tagged<Schedule>> =>
  putTagged<Schedule>(apiPath('schedules', id), tag, body)

/** The job that a schedule submits; null where it is not for this viewer. */
export const jobOf = (schedule: Schedule | null): JobBody | null => (schedule?.job ?? null) as JobBody | null

/** Programs and arguments as one line; what has blanks is quoted. */
export const writeCommand = (command: readonly string[]): string => command.map(quote).join(' ')

/** The next instant of all that are active; null where none is. */
export function findNext(schedules: readonly Schedule[]): number | null {
  const instants = schedules.map((schedule) => schedule.next_ns).filter((instant) => instant !== null)
  return instants.length > 0 ? Math.min(...instants) : null
}
