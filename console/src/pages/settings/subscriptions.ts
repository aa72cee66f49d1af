/** Subscriptions to messages: what the form has, and what is sent. Pure. */
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type Subscription = Schemas['SubscriptionOut']
export type SubscriptionBody = Schemas['SubscriptionIn']
export type Delivery = Schemas['DeliveryOut']
export type Topic = Subscription['topics'][number]

export const FORMATS = ['mail', 'webhook', 'slack', 'teams', 'feishu', 'dingtalk', 'wecom'] as const
export const TOPICS = [
  'job-placed',
  'job-started',
  'job-ended',
  'job-failed',
  'job-requeued',
  'job-retried',
  'job-moved',
  'job-waiting',
  'job-idle',
  'job-advised',
  'job-handed-over',
  'promise-moved',
  'schedule-paused',
  'schedule-failed',
  'token-expiring',
  'budget-crossed',
  'reservation-begins',
  'reservation-ended',
  'card-failed',
  'node-silent',
] as const
/** Formats whose messages are signed with a secret. */
export const SIGNED: ReadonlySet<string> = new Set(['webhook', 'feishu', 'dingtalk'])

export interface Draft {
  name: string
  format: Subscription['format']
  address: string
  secret: string
  topics: string[]
  scope: Subscription['scope']
  waitingMinutes: string
  quietHours: string
  digestMinutes: string
}

export type Fault = 'name' | 'address' | 'topics' | 'waitingMinutes' | 'quietHours' | 'digestMinutes'

const CLOCK = '([01]\\d|2[0-3]):[0-5]\\d'
const QUIET = new RegExp(`^${CLOCK}-${CLOCK}$`)
const isMinutes = (text: string, least: number, most: number): boolean =>
  text.trim() !== '' && Number.isInteger(Number(text)) && Number(text) >= least && Number(text) <= most

export function findFaults(draft: Draft): Set<Fault> {
  const faults = new Set<Fault>()
  const isMail = draft.format === 'mail'
  if (draft.name.trim() === '') faults.add('name')
  if (!(isMail ? /^\S+@\S+$/ : /^https?:\/\/\S+$/).test(draft.address.trim())) faults.add('address')
  if (draft.topics.length === 0) faults.add('topics')
  if (!isMinutes(draft.waitingMinutes, 1, 43_200)) faults.add('waitingMinutes')
  if (draft.quietHours.trim() !== '' && !QUIET.test(draft.quietHours.trim())) faults.add('quietHours')
  if (!isMinutes(draft.digestMinutes, 0, 10_080)) faults.add('digestMinutes')
  return faults
}

/** The body of `POST /api/v1/subscriptions` of a draft without faults. */
export function makeBody(draft: Draft, language: 'en' | 'zh', timeZone: string): SubscriptionBody {
  return {
    name: draft.name.trim(),
    format: draft.format,
    address: draft.address.trim(),
    secret: SIGNED.has(draft.format) ? draft.secret : '',
    topics: draft.topics as Topic[],
    scope: draft.scope,
    waiting_seconds: Number(draft.waitingMinutes) * 60,
    language,
    quiet_hours: draft.quietHours.trim(),
    time_zone: timeZone,
    digest_seconds: Number(draft.digestMinutes) * 60,
  }
}
