// Nodes and cards as the server describes them, and what may be done with cards.
import { request } from '../../api/client'
import { listAll } from '../../api/lists'

/** As much of `GET /api/v1/nodes` as the page shows. */
export interface PoolNode {
  name: string
  ready: boolean
  simulated: boolean
  labels: Record<string, string>
  last_seen_ns: number
  devices: number
  cpu_milli: number | null
  host_bytes: number | null
  free_cpu_milli: number | null
  free_host_bytes: number | null
  cluster: boolean
}

/** What enforces a share that a mechanism makes, as its agent publishes it. */
export interface MechanismOffer {
  name: string
  availability: 'now' | 'after-switch' | 'never'
  levels: Record<string, string>
  why: string
}

/** As much of `GET /api/v1/devices` as the page shows. */
export interface PoolCard {
  name: string
  uuid: string
  node: string
  model: string
  product: string
  memory_bytes: number
  state: CardState
  health: CardHealth
  health_reason: string
  used_milli: number
  free_milli: number
  free_bytes: number
  shares: number
  mode: string
  usage: {
    utilization_percent: number | null
    power_watts: number | null
    temperature_celsius: number | null
  }
  unmanaged: { pid: number; name?: string | null }[]
  facts: { mechanisms?: { mechanisms?: MechanismOffer[] } }
  cluster: boolean
}

export const CARD_STATES = ['adopted', 'observed', 'draining', 'lost'] as const
export const CARD_HEALTHS = ['ok', 'warning', 'failed', 'unknown'] as const
export type CardState = (typeof CARD_STATES)[number]
export type CardHealth = (typeof CARD_HEALTHS)[number]

export interface CardFilter {
  readonly state: CardState | null
  readonly health: CardHealth | null
  readonly node: string | null
}

export interface Page<Item> {
  items: Item[]
  next: string | null
}

/** Rows of one answer; the next answer is asked for when the table is scrolled to its end. */
const PAGE_ROWS = 200

/** All nodes: the page says how many there are, and how many of them are ready. */
export const listNodes = (): Promise<PoolNode[]> => listAll<PoolNode>('/api/v1/nodes')

/** One page of the cards, filtered by the server. */
export function listCards(filter: CardFilter, after: string | null, signal: AbortSignal): Promise<Page<PoolCard>> {
  return request(`/api/v1/devices?${writeQuery({ ...filter, after, limit: PAGE_ROWS })}`, { signal })
}

/** The parameters that have a value, as a query. */
export function writeQuery(values: Record<string, string | number | null>): string {
  const words = new URLSearchParams()
  for (const [name, value] of Object.entries(values)) {
    if (value !== null) words.set(name, String(value))
  }
  return words.toString()
}

export const ACTS = ['adopt', 'drain', 'release'] as const
export type Act = (typeof ACTS)[number]

/** Do it with these cards: with all of them, or the server refuses. */
export function changeCards(act: Act, devices: readonly string[]): Promise<PoolCard[]> {
  const path = act === 'adopt' ? '/api/v1/devices/adopt' : '/api/v1/devices/release'
  return request(path, { method: 'POST', body: JSON.stringify({ devices, drain: act === 'drain' }) })
}

/** The cards of a choice with which an act makes sense. */
export function findSubjects(act: Act, cards: readonly PoolCard[]): PoolCard[] {
  return cards.filter((card) => {
    if (card.cluster) return false
    if (act === 'adopt') return card.state === 'observed' || card.state === 'draining'
    return act === 'drain' ? card.state === 'adopted' : card.state === 'adopted' || card.state === 'draining'
  })
}
