// Numbers and times as people read them. Amounts come in the API's units: milli-devices, bytes,
// nanoseconds. An unknown amount is `--`, never 0.
import i18next from 'i18next'

export const UNKNOWN = '--'
export const MIB = 1024 ** 2
export const GIB = 1024 ** 3
export const MILLI = 1000
const NB = '\u00a0'
const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const NS_PER_MS = 1e6

type Maybe = number | null | undefined

const isUnknown = (value: Maybe): value is null | undefined => value === null || value === undefined

/** The locale of numbers and dates. */
export const findLocale = (): string => (i18next.language === 'zh' ? 'zh-CN' : 'en-GB')

export function formatNumber(value: Maybe, digits = 0): string {
  if (isUnknown(value)) return UNKNOWN
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits }
  return new Intl.NumberFormat(findLocale(), options).format(value)
}

/** An amount with these digits, and with more where it would read as 0: at most four. */
export function formatAmount(value: Maybe, digits: number): string {
  if (isUnknown(value)) return UNKNOWN
  let shown = digits
  while (shown < 4 && value > 0 && value < 0.5 * 10 ** -shown) shown += 1
  return formatNumber(value, shown)
}

/** A ratio between 0 and 1 as a percentage. */
export function formatPercent(ratio: Maybe, digits = 0): string {
  return isUnknown(ratio) ? UNKNOWN : formatNumber(ratio * 100, digits) + NB + '%'
}

/** Milli-devices as cards: one digit after the point for what is held, two for a share. */
export function formatCards(milli: Maybe, digits = 1): string {
  return isUnknown(milli) ? UNKNOWN : formatNumber(milli / MILLI, digits)
}

/** Bytes as GiB, or MiB below one GiB. */
export function formatBytes(bytes: Maybe): string {
  if (isUnknown(bytes)) return UNKNOWN
  if (bytes > 0 && bytes < GIB) return formatNumber(bytes / MIB) + NB + 'MiB'
  const gib = new Intl.NumberFormat(findLocale(), { maximumFractionDigits: 1 }).format(bytes / GIB)
  return gib + NB + 'GiB'
}

/** A share in both units, `8 × 1.00 GPU + 141 GiB`. */
export function formatShare(milli: number, bytes: Maybe, count = 1): string {
  const cards = count > 1 ? `${count}${NB}×${NB}` : ''
  const compute = `${cards}${(milli / MILLI).toFixed(2)}${NB}GPU`
  return isUnknown(bytes) ? compute : `${compute} + ${formatBytes(bytes)}`
}

/** An amount of money in the currency of the price list. */
export function formatMoney(value: Maybe, currency: string, digits = 2): string {
  if (isUnknown(value)) return UNKNOWN
  return `${currency}${NB}${formatNumber(value, digits)}`
}

/** Seconds as 45 s, 45 m, 2 h 05 m, 3 d 4 h. */
export function formatDuration(seconds: Maybe): string {
  if (isUnknown(seconds)) return UNKNOWN
  const [day, hour, minute, second] = i18next.language === 'zh' ? ['天', '小时', '分', '秒'] : ['d', 'h', 'm', 's']
  const whole = Math.max(0, Math.round(seconds))
  if (whole < MINUTE) return `${whole}${NB}${second}`
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}${NB}${minute}`
  if (whole < DAY) {
    const minutes = String(Math.floor((whole % HOUR) / MINUTE)).padStart(2, '0')
    return `${Math.floor(whole / HOUR)}${NB}${hour}${NB}${minutes}${NB}${minute}`
  }
  return `${Math.floor(whole / DAY)}${NB}${day}${NB}${Math.floor((whole % DAY) / HOUR)}${NB}${hour}`
}

/** Seconds between two instants in nanoseconds; the later one is now by default. */
export function secondsBetween(startNs: Maybe, endNs?: Maybe): number | null {
  if (isUnknown(startNs)) return null
  const end = isUnknown(endNs) ? Date.now() : endNs / NS_PER_MS
  return (end - startNs / NS_PER_MS) / 1000
}

/** An instant to the second, with its day. */
export function formatInstant(atNs: Maybe): string {
  if (isUnknown(atNs)) return UNKNOWN
  const shape: Intl.DateTimeFormatOptions = {
    year: 'numeric',
    month: 'short',
    day: 'numeric',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
  }
  return new Intl.DateTimeFormat(findLocale(), shape).format(new Date(atNs / NS_PER_MS))
}

/** The clock's time of an instant; its day is named when it is not today. */
export function formatClock(atNs: Maybe, now: Date = new Date()): string {
  if (isUnknown(atNs)) return UNKNOWN
  const at = new Date(atNs / NS_PER_MS)
  const clock = new Intl.DateTimeFormat(findLocale(), { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }).format(
    at,
  )
  const days = Math.abs(at.getTime() - now.getTime()) / 1000 / DAY
  if (at.toDateString() === now.toDateString()) return clock
  const day: Intl.DateTimeFormatOptions =
    days < 6 ? { weekday: 'short' } : { year: 'numeric', month: 'short', day: 'numeric' }
  return new Intl.DateTimeFormat(findLocale(), day).format(at) + NB + clock
}
