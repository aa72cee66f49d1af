/** Schedules: jobs that are submitted at the instants of a cron expression. */
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { quote } from '../../ui/shell'

type Schemas = components['schemas']
export type Schedule = Schemas['ScheduleOut']
export type ScheduleRun = Schemas['ScheduleRunOut']
export type ScheduleAct = 'pause' | 'resume' | 'run'

export const listSchedules = async (): Promise<Schedule[]> =>
  (await request<{ items: Schedule[] }>('/api/v1/schedules')).items

export const listRuns = async (id: string): Promise<ScheduleRun[]> =>
  (await request<{ items: ScheduleRun[] }>(apiPath('schedules', id, 'runs'))).items

export const actOn = (id: string, act: ScheduleAct): Promise<unknown> => send('POST', apiPath('schedules', id, act))

export const removeSchedule = (id: string): Promise<void> => send('DELETE', apiPath('schedules', id))

/** Programs and arguments as one line; what has blanks is quoted. */
export const writeCommand = (command: readonly string[]): string => command.map(quote).join(' ')

/** The next instant of all that are active; null where none is. */
export function findNext(schedules: readonly Schedule[]): number | null {
  const instants = schedules.map((schedule) => schedule.next_ns).filter((instant) => instant !== null)
  return instants.length > 0 ? Math.min(...instants) : null
}
