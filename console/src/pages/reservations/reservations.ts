/** Reservations in time: when each holds its cards, which overlap, and what a form sends. Pure. */
import type { components } from '../../api/schema'

export type Reservation = components['schemas']['ReservationOut']
export type ReservationBody = components['schemas']['ReservationIn']

const NS_PER_MS = 1e6
const HOUR_MS = 3_600_000
const GIB = 1024 ** 3
/** Times of one reservation that are looked at: a minute's repetition over a month is a line of its own. */
const MOST_TIMES = 1000

/** One time in which a reservation holds its cards; without an end until it is deleted. */
export interface Occurrence {
  readonly fromMs: number
  readonly toMs: number
}

type Calendar = Pick<Reservation, 'start_ns' | 'end_ns' | 'every_seconds' | 'until_ns'>

/** The times of a reservation that begin before an instant, the present or coming one first. */
export function listTimes(reservation: Calendar, beforeMs: number): Occurrence[] {
  const startMs = reservation.start_ns / NS_PER_MS
  const lengthMs = reservation.end_ns == null ? Number.POSITIVE_INFINITY : reservation.end_ns / NS_PER_MS - startMs
  const everyMs = (reservation.every_seconds ?? 0) * 1000
  const untilMs = reservation.until_ns == null ? Number.POSITIVE_INFINITY : reservation.until_ns / NS_PER_MS
  const times: Occurrence[] = []
  for (let number = 0; number < MOST_TIMES; number += 1) {
    const fromMs = startMs + number * everyMs
    const isRepeated = number > 0
    if (fromMs >= beforeMs || (isRepeated && fromMs >= untilMs)) break
    times.push({ fromMs, toMs: fromMs + lengthMs })
    if (everyMs === 0) break
  }
  return times
}

/** Reservations of a list that hold cards at a time of the draft too, within the next 60 days of it. */
export function findOverlaps(draft: Calendar, others: readonly Reservation[]): Reservation[] {
  const horizonMs = draft.start_ns / NS_PER_MS + 60 * 24 * HOUR_MS
  const times = listTimes(draft, horizonMs)
  return others.filter((other) =>
    listTimes(other, horizonMs).some((held) =>
      times.some((time) => time.fromMs < held.toMs && held.fromMs < time.toMs),
    ),
  )
}

export const REPEATS = { never: null, day: 86_400, week: 604_800 } as const
export type Repeat = keyof typeof REPEATS

/** What a form has: texts as they are typed, times in the viewer's zone. */
export interface Draft {
  name: string
  tenant: string
  gpu: string
  count: string
  replicas: string
  memoryGib: string
  model: string
  start: string
  hours: string
  repeat: Repeat
  until: string
}

export type Fault = 'name' | 'gpu' | 'count' | 'replicas' | 'memoryGib' | 'start' | 'hours' | 'until'

const isWhole = (text: string, most: number): boolean =>
  /^\d+$/.test(text.trim()) && Number(text) >= 1 && Number(text) <= most

/** An instant that was typed into a field of date and time; null: none. */
function parseInstant(text: string): number | null {
  const at = new Date(text).getTime()
  return text === '' || Number.isNaN(at) ? null : at * NS_PER_MS
}

export function findFaults(draft: Draft): Set<Fault> {
  const faults = new Set<Fault>()
  const gpu = Number(draft.gpu)
  const hours = Number(draft.hours)
  if (draft.name.trim() === '') faults.add('name')
  if (!(gpu > 0 && gpu <= 1)) faults.add('gpu')
  if (!isWhole(draft.count, 1024)) faults.add('count')
  if (!isWhole(draft.replicas, 10_000)) faults.add('replicas')
  if (draft.memoryGib.trim() !== '' && !(Number(draft.memoryGib) > 0)) faults.add('memoryGib')
  if (parseInstant(draft.start) === null) faults.add('start')
  if (draft.hours.trim() !== '' && !(hours > 0)) faults.add('hours')
  if (draft.repeat !== 'never' && draft.hours.trim() === '') faults.add('hours')
  if (draft.repeat !== 'never' && draft.until !== '' && parseInstant(draft.until) === null) faults.add('until')
  return faults
}

/** The body of `POST /api/v1/reservations` of a draft without faults. */
export function makeBody(draft: Draft): ReservationBody {
  const startNs = parseInstant(draft.start) ?? 0
  const hours = draft.hours.trim() === '' ? null : Number(draft.hours)
  const isRepeated = draft.repeat !== 'never'
  return {
    name: draft.name.trim(),
    tenant: draft.tenant || null,
    replicas: Number(draft.replicas),
    shape: {
      gpu_milli: Math.round(Number(draft.gpu) * 1000),
      count: Number(draft.count),
      memory_bytes: draft.memoryGib.trim() === '' ? null : Math.round(Number(draft.memoryGib) * GIB),
      model: draft.model.trim() || null,
    },
    start_ns: startNs,
    end_ns: hours === null ? null : startNs + Math.round(hours * 3600) * 1e9,
    every_seconds: REPEATS[draft.repeat],
    until_ns: isRepeated && draft.until !== '' ? parseInstant(draft.until) : null,
  } as ReservationBody
}

/** The next full hour in the form of a field of date and time. */
export const nextHour = (nowMs: number): string => formatField(Math.ceil((nowMs + 1) / HOUR_MS) * HOUR_MS)

/** An instant in the form of a field of date and time. */
export function formatField(atMs: number): string {
  const at = new Date(atMs)
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
  return `${day}T${two(at.getHours())}:${two(at.getMinutes())}`
}

/** Hours as a field has them. */
export const formatHours = (lengthMs: number): string => String(lengthMs / HOUR_MS)
