/** Price lists: what a form writes, and what a card costs an hour by which list. Pure, but for the questions at the end. */
import { request } from '../../api/client'
import { apiPath, getTagged, putTagged, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'

export type PriceList = components['schemas']['PriceListOut']
export type PriceBody = components['schemas']['PriceListIn']
export type Rate = components['schemas']['RateIn']
export type ChargeRule = PriceList['rule']

export const CHARGE_RULES: readonly ChargeRule[] = ['max', 'compute-only', 'memory-only']
export const SHARINGS = ['fixed', 'burst', 'best-effort', 'offline'] as const
/** Every model that has no rate of its own. */
export const ANY_MODEL = '*'
/** The tag of a list that is not there yet. */
export const NEW_TAG = '"0"'

const MICRO = 1e6
const HOUR_MS = 3_600_000
const NS_PER_MS = 1e6
const DAY_HOURS = 24
const MILLI = 1000
const BASIS_POINTS = 10_000

/** A rate as it is typed; empty texts are any. */
export interface RateDraft {
  readonly key: number
  model: string
  price: string
  mechanism: string
  sharing: string
  fromHour: string
  untilHour: string
}

export interface PriceDraft {
  name: string
  /** The value of an input of a date and time, by the clocks of the browser. */
  from: string
  currency: string
  timezone: string
  rule: ChargeRule
  discountPercent: string
  taxPercent: string
  reservedPercent: string
  rates: RateDraft[]
}

const pad = (value: number) => String(value).padStart(2, '0')

/** An instant as an input of a date and time writes it. */
export function toInput(atMs: number): string {
  const at = new Date(atMs)
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}T${pad(at.getHours())}:${pad(at.getMinutes())}`
}

/** The first whole hour after an instant: a list begins at one. */
export const findNextHour = (nowMs: number): number => (Math.floor(nowMs / HOUR_MS) + 1) * HOUR_MS

export const makeRate = (key: number, rate?: Rate): RateDraft => ({
  key,
  model: rate?.model ?? ANY_MODEL,
  price: rate === undefined ? '' : String(rate.price_micro / MICRO),
  mechanism: rate?.mechanism ?? '',
  sharing: rate?.sharing ?? '',
  fromHour: rate?.from_hour == null ? '' : String(rate.from_hour),
  untilHour: rate?.until_hour == null ? '' : String(rate.until_hour),
})

/** Parts of a whole as the percentage that was typed; one division, so that 7 % is not 7.000000000000001. */
const toPercent = (parts: number | undefined, whole: number): string => String((parts ?? 0) / (whole / 100))

/** The draft of a list; or of the next one, which begins with the prices of the one before. */
export function makeDraft(list: PriceList | null, isNext: boolean, nowMs: number, timezone: string): PriceDraft {
  const from = list === null || isNext ? toInput(findNextHour(nowMs)) : toInput(list.from_ns / NS_PER_MS)
  return {
    name: list === null || isNext ? `prices-${from.slice(0, 10)}` : list.name,
    from,
    currency: list?.currency ?? '',
    timezone: list?.timezone ?? timezone,
    rule: list?.rule ?? 'max',
    discountPercent: toPercent(list?.preemptible_discount_milli, MILLI),
    taxPercent: toPercent(list?.tax_basis_points, BASIS_POINTS),
    reservedPercent: toPercent(list?.reserved_milli, MILLI),
    rates: (list?.rates ?? [undefined]).map((rate, place) => makeRate(place, rate)),
  }
}

/** Millionths of a price that was typed; null: none. */
export function parsePrice(text: string): number | null {
  const value = Number(text.trim())
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) return null
  const micro = Math.round(value * MICRO)
  return Number.isSafeInteger(micro) && micro <= 1e15 ? micro : null
}

/** A percentage from 0 to 100 in parts of a whole; null: none. */
function parsePercent(text: string, whole: number): number | null {
  const value = Number(text.trim())
  return text.trim() !== '' && value >= 0 && value <= 100 ? Math.round((value / 100) * whole) : null
}

function parseHour(text: string, most: number): number | null | undefined {
  if (text.trim() === '') return null
  const hour = Number(text)
  return Number.isInteger(hour) && hour >= 0 && hour <= most ? hour : undefined
}

const isRateFaulty = (rate: RateDraft): boolean => {
  const from = parseHour(rate.fromHour, DAY_HOURS - 1)
  const until = parseHour(rate.untilHour, DAY_HOURS)
  const areHours = from === null ? until === null : from !== undefined && until != null && from !== until % DAY_HOURS
  return rate.model.trim() === '' || parsePrice(rate.price) === null || !areHours
}

export type PriceFault = 'name' | 'past' | 'wholeHour' | 'from' | 'currency' | 'discount' | 'tax' | 'reserved' | 'rates'

/** What of a draft no list can have; `past` is a beginning whose hours are already counted. */
export function findFaults(draft: PriceDraft, nowMs: number): Set<PriceFault> {
  const faults = new Set<PriceFault>()
  const from = new Date(draft.from).getTime()
  if (draft.name.trim() === '') faults.add('name')
  if (Number.isNaN(from)) faults.add('from')
  else if (from < nowMs) faults.add('past')
  else if (from % HOUR_MS !== 0) faults.add('wholeHour')
  if (!/^[A-Za-z]{1,8}$/.test(draft.currency.trim())) faults.add('currency')
  if (parsePercent(draft.discountPercent, MILLI) === null) faults.add('discount')
  if (parsePercent(draft.taxPercent, BASIS_POINTS) === null) faults.add('tax')
  if (parsePercent(draft.reservedPercent, MILLI) === null) faults.add('reserved')
  if (draft.rates.length === 0 || draft.rates.some(isRateFaulty)) faults.add('rates')
  return faults
}

const readRate = (rate: RateDraft): Rate => ({
  model: rate.model.trim(),
  price_micro: parsePrice(rate.price) ?? 0,
  mechanism: rate.mechanism.trim() || null,
  sharing: rate.sharing || null,
  from_hour: parseHour(rate.fromHour, DAY_HOURS - 1) ?? null,
  until_hour: parseHour(rate.untilHour, DAY_HOURS) ?? null,
})

/** The body of a draft without faults. */
export const makeBody = (draft: PriceDraft): PriceBody => ({
  from_ns: new Date(draft.from).getTime() * NS_PER_MS,
  currency: draft.currency.trim(),
  timezone: draft.timezone.trim(),
  rule: draft.rule,
  rates: draft.rates.map(readRate),
  preemptible_discount_milli: parsePercent(draft.discountPercent, MILLI) ?? 0,
  tax_basis_points: parsePercent(draft.taxPercent, BASIS_POINTS) ?? 0,
  reserved_milli: parsePercent(draft.reservedPercent, MILLI) ?? 0,
})

/** The list that holds at an instant, one of them left out. */
export function findList(lists: readonly PriceList[], atNs: number, without: string): PriceList | null {
  const begun = lists.filter((list) => list.name !== without && list.from_ns <= atNs)
  return begun.reduce<PriceList | null>((last, list) => (last && last.from_ns > list.from_ns ? last : list), null)
}

/** Of which shares a price is; empty texts are none in particular. */
export interface Conditions {
  readonly model: string
  readonly mechanism: string
  readonly sharing: string
}

function coversHour(rate: Rate, hour: number): boolean {
  if (rate.from_hour == null || rate.until_hour == null) return true
  const count = (rate.until_hour - rate.from_hour + DAY_HOURS) % DAY_HOURS
  return (hour - rate.from_hour + DAY_HOURS) % DAY_HOURS < count
}

/** How much a rate names: of two that hold the one that names most does, as the server has it. */
const rankRate = (rate: Rate): number =>
  (rate.model !== ANY_MODEL ? 8 : 0) +
  (rate.mechanism != null ? 4 : 0) +
  (rate.sharing != null ? 2 : 0) +
  (rate.from_hour != null ? 1 : 0)

/** Millionths per card and hour; null: it has no price. */
export function findPrice(rates: readonly Rate[], asked: Conditions, hour: number): number | null {
  const fitting = rates.filter(
    (rate) =>
      (rate.model === ANY_MODEL || rate.model === asked.model) &&
      (rate.mechanism == null || rate.mechanism === asked.mechanism) &&
      (rate.sharing == null || rate.sharing === asked.sharing) &&
      coversHour(rate, hour),
  )
  const best = fitting.reduce<Rate | null>(
    (last, rate) => (last && rankRate(last) >= rankRate(rate) ? last : rate),
    null,
  )
  return best === null ? null : best.price_micro
}

/** A span of hours of the day in which both prices stay as they are. */
export interface PriceChange extends Conditions {
  readonly fromHour: number
  readonly untilHour: number
  readonly before: number | null
  readonly after: number | null
}

/** What a card-hour costs before and after, of each model and of what either list names apart. */
export function comparePrices(
  before: readonly Rate[],
  after: readonly Rate[],
  models: readonly string[],
): PriceChange[] {
  const named = [...before, ...after]
  const plain = [...new Set([...models, ...named.map((rate) => rate.model)])].sort()
  const asked = new Map<string, Conditions>()
  const add = (one: Conditions) => asked.set(`${one.model} ${one.mechanism} ${one.sharing}`, one)
  for (const model of plain) add({ model, mechanism: '', sharing: '' })
  for (const rate of named) add({ model: rate.model, mechanism: rate.mechanism ?? '', sharing: rate.sharing ?? '' })
  const changes: PriceChange[] = []
  for (const one of asked.values()) {
    let span = null as PriceChange | null
    for (let hour = 0; hour < DAY_HOURS; hour += 1) {
      const was = findPrice(before, one, hour)
      const is = findPrice(after, one, hour)
      if (span !== null && span.before === was && span.after === is) {
        span = { ...span, untilHour: hour + 1 }
        changes[changes.length - 1] = span
      } else {
        span = { ...one, fromHour: hour, untilHour: hour + 1, before: was, after: is }
        changes.push(span)
      }
    }
  }
  return changes
}

export const listPrices = (): Promise<PriceList[]> => request<PriceList[]>('/api/v1/prices')
export const fetchPrices = (name: string): Promise<Tagged<PriceList>> => getTagged<PriceList>(apiPath('prices', name))
export const putPrices = (name: string, tag: string, body: PriceBody): Promise<Tagged<PriceList>> =>
  putTagged<PriceList>(apiPath('prices', name), tag, body)
