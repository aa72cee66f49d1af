/** A change that is only simulated: what the form has, the body that is sent, and the same command. Pure. */
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type Forecast = Schemas['WhatIfOut']
export type Side = Schemas['ForecastOut']

export interface Change {
  /** Nodes to add as the CLI writes them: `4xL40S`, `2x8xH200`. */
  add: string
  remove: string[]
  policy: string
  /** Guarantees in cards, by tenant: `nlp=8, cv=4`. */
  quotas: string
  horizonHours: string
}

export const NO_CHANGE: Change = { add: '', remove: [], policy: '', quotas: '', horizonHours: '24' }

interface Added {
  nodes: number
  cards: number
  model: string
}

const split = (text: string): string[] => text.split(/[\s,]+/).filter((word) => word !== '')

/** `4xL40S` is a node of four cards, `2x8xH200` are two nodes of eight; null: something else. */
export function parseAdded(text: string): Added[] | null {
  const found: Added[] = []
  for (const word of split(text)) {
    const parts = /^(?:(\d{1,4})x)?(\d{1,3})x([A-Za-z][\w.-]*)$/.exec(word)
    if (parts === null) return null
    const added = { nodes: Number(parts[1] ?? 1), cards: Number(parts[2]), model: parts[3] as string }
    if (added.nodes < 1 || added.nodes > 1000 || added.cards < 1 || added.cards > 128) return null
    found.push(added)
  }
  return found
}

/** Guarantees in thousandths of a card by tenant; null: something else. */
export function parseQuotas(text: string): Record<string, number> | null {
  const found: Record<string, number> = {}
  for (const word of split(text)) {
    const parts = /^([a-z0-9][\w.-]*)=(\d+(?:\.\d+)?)$/i.exec(word)
    if (parts === null) return null
    found[parts[1] as string] = Math.round(Number(parts[2]) * 1000)
  }
  return found
}

/** Whole hours of the look ahead, up to 31 days, in seconds; null: something else. */
export function parseHorizon(text: string): number | null {
  const hours = Number(text)
  return text.trim() !== '' && hours > 0 && hours <= 744 ? Math.round(hours * 3600) : null
}

/** The kinds of sharing that every share can get; any other word is a placement policy. */
export const KINDS = ['fixed', 'burst', 'best-effort', 'offline'] as const
type Kind = (typeof KINDS)[number]

const isKind = (word: string): word is Kind => (KINDS as readonly string[]).includes(word)

/** `fgd`, `burst`, or `fgd,burst`: a placement policy, and a kind of sharing; null: two of one kind. */
export function parsePolicy(text: string): { policy: string | null; sharing: Kind | null } | null {
  const words = split(text)
  const kinds = words.filter(isKind)
  const policies = words.filter((word) => !isKind(word))
  if (kinds.length > 1 || policies.length > 1) return null
  return { policy: policies[0] ?? null, sharing: kinds[0] ?? null }
}

/** The body of `POST /api/v1/whatif`; null where a field cannot be read. */
export function makeBody(change: Change) {
  const add = parseAdded(change.add)
  const quotas = parseQuotas(change.quotas)
  const horizon = parseHorizon(change.horizonHours)
  const policy = parsePolicy(change.policy)
  if (add === null || quotas === null || horizon === null || policy === null) return null
  return {
    add,
    remove: change.remove,
    ...policy,
    nominal_milli: quotas,
    horizon_seconds: horizon,
  }
}

/** The command that asks the same. */
export function writeCommand(change: Change): string {
  const words = ['gpupool whatif']
  for (const spec of split(change.add)) words.push(`--add ${spec}`)
  for (const node of change.remove) words.push(`--remove ${node}`)
  if (change.policy.trim()) words.push(`--policy ${split(change.policy).join(',')}`)
  for (const quota of split(change.quotas)) words.push(`--quota ${quota}`)
  if (change.horizonHours.trim() !== '24') words.push(`--horizon ${change.horizonHours.trim()}h`)
  return words.join(' ')
}
