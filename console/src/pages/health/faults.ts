/** What is wrong in the pool now, since when, and by what evidence. Pure. */
import type { components } from '../../api/schema'
import type { PoolEvent } from '../../live/messages'

type Schemas = components['schemas']
export type Card = Schemas['DeviceOut']
export type Node = Schemas['NodeOut']
export type Check = Schemas['CheckOut']

export interface Fault {
  readonly key: string
  readonly kind: 'card' | 'node'
  /** The card's or the node's name. */
  readonly subject: string
  readonly node: string
  readonly state: 'failed' | 'warning' | 'lost' | 'silent'
  readonly cause: string
  /** Null: before the events that were read. */
  readonly sinceNs: number | null
  readonly shares: number
  readonly card: Card | null
}

const SEVERITY: readonly Fault['state'][] = ['failed', 'lost', 'silent', 'warning']

/** The latest event of a kind about one card or node. */
function findLast(events: readonly PoolEvent[], subject: string, kind: string): PoolEvent | null {
  for (let place = events.length - 1; place >= 0; place -= 1) {
    const event = events[place]
    if (event?.subject === subject && event.kind === kind) return event
  }
  return null
}

function judgeCard(card: Card): Fault['state'] | null {
  if (card.state === 'lost') return 'lost'
  return card.health === 'failed' || card.health === 'warning' ? card.health : null
}

/** Faults of cards and nodes, the gravest first. A silent node's cards are its own fault, not one each. */
export function listFaults(cards: readonly Card[], nodes: readonly Node[], events: readonly PoolEvent[]): Fault[] {
  const faults: Fault[] = []
  for (const node of nodes) {
    if (node.ready) continue
    faults.push({
      key: `node ${node.name}`,
      kind: 'node',
      subject: node.name,
      node: node.name,
      state: 'silent',
      cause: '',
      sinceNs: node.last_seen_ns,
      shares: 0,
      card: null,
    })
  }
  for (const card of cards) {
    const state = judgeCard(card)
    if (state === null) continue
    const kind = state === 'lost' ? 'device.lost' : 'device.health'
    faults.push({
      key: `card ${card.uuid}`,
      kind: 'card',
      subject: card.name,
      node: card.node,
      state,
      cause: card.health_reason ?? '',
      sinceNs: findLast(events, card.name, kind)?.at_ns ?? null,
      shares: card.shares,
      card,
    })
  }
  return faults.sort((one, other) => SEVERITY.indexOf(one.state) - SEVERITY.indexOf(other.state))
}

/** Events of cards, nodes and the server, the latest first. */
export const listHistory = (events: readonly PoolEvent[]): PoolEvent[] =>
  events.filter((event) => /^(device|node|server)\./.test(event.kind)).reverse()

/** The data of an event in one line, as text. */
export function writeData(data: Record<string, unknown> | undefined): string {
  const words: string[] = []
  for (const [name, value] of Object.entries(data ?? {})) {
    const isText = typeof value === 'string' || typeof value === 'number'
    if (isText && name !== 'uuid' && value !== '') words.push(`${name} ${value}`)
  }
  return words.join(', ')
}
