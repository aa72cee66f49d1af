/** Services: replicas of one job behind one address. */
import { request } from '../../api/client'
import { apiPath, send } from '../../api/lists'
import type { components } from '../../api/schema'
import { formatNumber, UNKNOWN } from '../../ui/format'

type Schemas = components['schemas']
export type Service = Schemas['ServiceOut']
export type Replica = Schemas['ReplicaOut']
export type ServiceRule = Schemas['ServiceRule']
export type ServicePlan = Schemas['ServicePlanOut']
export type ServiceEvent = Schemas['Event']
export type Measure = ServiceRule['measure']

export const listServices = async (): Promise<Service[]> =>
  (await request<{ items: Service[] }>('/api/v1/services')).items

/** One service with its replicas. The id names it: an admin sees several of one name. */
export const fetchService = (id: string): Promise<Service> => request<Service>(apiPath('services', id))

export const listEvents = async (id: string): Promise<ServiceEvent[]> =>
  (await request<{ items: ServiceEvent[] }>(`${apiPath('services', id, 'events')}?limit=${EVENTS_SHOWN}`)).items

/** What a change would do to the replicas; it changes nothing. */
export const planChange = (id: string, rule: RuleChange): Promise<ServicePlan> =>
  send('POST', apiPath('services', id, 'plan'), { rule })

export const changeService = (id: string, rule: RuleChange): Promise<Service> =>
  send('PATCH', apiPath('services', id), { rule })

export const removeService = (id: string): Promise<Service> => send('DELETE', apiPath('services', id))

export const MEASURES: readonly Measure[] = ['requests', 'gpu']
const EVENTS_SHOWN = 20
const MOST_REPLICAS = 64
const USUAL_TARGETS: Record<Measure, number> = { requests: 10, gpu: 70 }
const MOST_TARGETS: Record<Measure, number> = { requests: 100_000, gpu: 100 }

/** Fields of a rule that a form changes; the others stay. */
export type RuleChange = Pick<ServiceRule, 'min_replicas' | 'max_replicas' | 'measure' | 'target'>

/** Load of one replica: the rule's, or what the pool takes without one. */
export const findTarget = (rule: ServiceRule): number => rule.target ?? USUAL_TARGETS[rule.measure]

/** State of a service, as a word of `ui/State`. */
export function findState(service: Pick<Service, 'state' | 'desired' | 'ready'>): string {
  if (service.state === 'deleting') return 'stopping'
  if (service.desired === 0) return 'off'
  return service.ready >= service.desired ? 'ready' : 'waiting'
}

/** Why replicas are missing: the explanation without its count, which stands beside it. */
export const findWhy = (explain: string): string => explain.replace(/^\d+ of \d+ healthy(; )?/, '')

/** The address that callers use, below the server that this page is of. */
export const makeAddress = (service: Pick<Service, 'path'>, origin: string): string => `${origin}${service.path}`

export interface ServiceSum {
  readonly ready: number
  readonly desired: number
  /** Requests a second of all services; null: no request in the last minutes. */
  readonly perSecond: number | null
}

export function sumServices(services: readonly Service[]): ServiceSum {
  const rates = services.flatMap((service) => (service.recent ? [service.recent.per_second] : []))
  return {
    ready: services.reduce((sum, service) => sum + service.ready, 0),
    desired: services.reduce((sum, service) => sum + service.desired, 0),
    perSecond: rates.length > 0 ? rates.reduce((sum, rate) => sum + rate, 0) : null,
  }
}

/** A rate with two significant digits below 10. */
export function formatRate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return UNKNOWN
  if (perSecond === 0 || perSecond >= 10) return formatNumber(perSecond, perSecond === 0 ? 0 : 1)
  return formatNumber(perSecond, Math.min(4, Math.max(1, 1 - Math.floor(Math.log10(perSecond)))))
}

/** The time of an answer: 840 ms, 4.8 s, 42 s. */
export function formatAnswerTime(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN
  if (seconds < 1) return `${formatNumber(seconds * 1000)}\u00a0ms`
  return `${formatNumber(seconds, seconds < 10 ? 1 : 0)}\u00a0s`
}

/** What the form has of a rule: texts as they are typed. */
export interface RuleDraft {
  readonly least: string
  readonly most: string
  readonly measure: Measure
  readonly target: string
}

export type RuleFault = 'least' | 'most' | 'bounds' | 'target'

export const makeRuleDraft = (rule: ServiceRule): RuleDraft => ({
  least: String(rule.min_replicas),
  most: String(rule.max_replicas),
  measure: rule.measure,
  target: String(findTarget(rule)),
})

/** The draft with another measure, whose usual target it takes. */
export const chooseMeasure = (draft: RuleDraft, measure: Measure): RuleDraft =>
  draft.measure === measure ? draft : { ...draft, measure, target: String(USUAL_TARGETS[measure]) }

function isWhole(text: string, least: number, most: number): boolean {
  const number = Number(text)
  return text.trim() !== '' && Number.isInteger(number) && number >= least && number <= most
}

/** What is wrong with a draft, before the server is asked. */
export function findFaults(draft: RuleDraft): ReadonlySet<RuleFault> {
  const faults = new Set<RuleFault>()
  if (!isWhole(draft.least, 0, MOST_REPLICAS)) faults.add('least')
  if (!isWhole(draft.most, 1, MOST_REPLICAS)) faults.add('most')
  if (faults.size === 0 && Number(draft.least) > Number(draft.most)) faults.add('bounds')
  if (!isWhole(draft.target, 1, MOST_TARGETS[draft.measure])) faults.add('target')
  return faults
}

export const makeChange = (draft: RuleDraft): RuleChange => ({
  min_replicas: Number(draft.least),
  max_replicas: Number(draft.most),
  measure: draft.measure,
  target: Number(draft.target),
})

/** The same change in a terminal. */
export function writeCommand(name: string, draft: RuleDraft): string {
  const words = ['gpupool', 'service', 'update', name, '--min', draft.least, '--max', draft.most]
  return [...words, '--measure', draft.measure, '--target', draft.target].join(' ')
}

/** Replicas that are there, the newest first. */
export const listLive = (service: Service): Replica[] =>
  (service.replicas ?? [])
    .filter((replica) => replica.state !== 'ended')
    .sort((one, other) => other.number - one.number)

/** Replicas that a removal ends, and the requests under way in them. */
export function planRemoval(service: Service): { replicas: Replica[]; requests: number } {
  const replicas = listLive(service)
  return { replicas, requests: replicas.reduce((sum, replica) => sum + replica.requests, 0) }
}

const REASON = 'reason'

/** The facts of an event in one line, without its reason. */
export function writeFacts(event: ServiceEvent): string {
  const words: string[] = []
  for (const [name, value] of Object.entries(event.data ?? {})) {
    if (name === REASON) continue
    if (typeof value === 'string' || typeof value === 'number') words.push(`${name} ${value}`)
  }
  return words.join(', ')
}

export function findReason(event: ServiceEvent): string {
  const reason = event.data?.[REASON]
  return typeof reason === 'string' ? reason : ''
}
