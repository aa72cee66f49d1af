/**
 * The cards of the pool as columns: the answer of `GET /api/v1/map` in typed arrays.
 *
 * Ten thousand cards are a few arrays instead of ten thousand objects, so that drawing,
 * searching and comparing two answers allocate nothing for each card.
 */

export const STATES = ['observed', 'adopted', 'draining', 'lost'] as const
export const HEALTHS = ['ok', 'warning', 'failed', 'unknown'] as const
export type CardState = (typeof STATES)[number]
export type CardHealth = (typeof HEALTHS)[number]
/** What a reader must know first of a card; the worst of its state and its health. */
export type Condition = 'ok' | 'observed' | 'unknown' | 'warning' | 'draining' | 'failed' | 'lost'

/** The body of `GET /api/v1/map`. */
export interface MapAnswer {
  seq: number
  /** Names this answer; a server of an earlier release has none. */
  cursor?: string
  simulated: boolean | null
  nodes: { name: string[]; rack: (string | null)[]; domain: (string | null)[] }
  cards: {
    id: number[]
    node: number[]
    index: number[]
    model: number[]
    state: string[]
    health: string[]
    mechanism: (string | null)[]
    held_milli: number[]
    used_milli: (number | null)[]
    memory_bytes: number[]
    held_bytes: number[]
    largest_milli: number[]
  }
  models: string[]
  tenants: string[]
  /** Three integers a share: card, tenant (-1: another tenant's), thousandths of a card. */
  shares: number[]
  /** Memory of each share in MiB: one integer for three of `shares`. */
  share_mib: number[]
}

/** Columns that say which card it is; the others change while it stays the same card. */
type CardIdentity = 'id' | 'node' | 'index' | 'model'

/** The body of `GET /api/v1/map?after=CURSOR`, where the server knows that answer still. */
export interface MapChanges extends Pick<MapAnswer, 'seq' | 'tenants' | 'shares' | 'share_mib'> {
  cursor: string
  /** Positions of the cards of `rows`. */
  changed: number[]
  rows: Omit<MapAnswer['cards'], CardIdentity>
}

/** A tenant that the caller may not see. */
export const OTHER_TENANT = -1
/** Use of a card that reports none; the answer has null. */
export const UNKNOWN_USE = -1
/** Compute of a whole card. */
export const WHOLE_MILLI = 1000
/** Less free compute than this is rounding of partitions, not capacity. */
const LEAST_FREE_MILLI = 10

export interface PoolColumns {
  readonly seq: number
  readonly simulated: boolean | null
  readonly nodes: MapAnswer['nodes']
  readonly models: readonly string[]
  readonly tenants: readonly string[]
  readonly mechanisms: readonly string[]
  readonly size: number
  readonly ids: Int32Array
  readonly node: Int32Array
  readonly index: Int32Array
  readonly model: Int32Array
  readonly state: Uint8Array
  readonly health: Uint8Array
  /** Index into `mechanisms`; -1 where nothing says how the card is divided. */
  readonly mechanism: Int32Array
  readonly heldMilli: Int32Array
  readonly usedMilli: Int32Array
  readonly memoryBytes: Float64Array
  readonly heldBytes: Float64Array
  readonly largestMilli: Int32Array
  /** The shares of card `c` are those from `shareStart[c]` to `shareStart[c + 1]`. */
  readonly shareStart: Int32Array
  readonly shareTenant: Int32Array
  readonly shareMilli: Int32Array
  readonly shareMib: Int32Array
}

type Shares = Pick<PoolColumns, 'shareStart' | 'shareTenant' | 'shareMilli' | 'shareMib'>

/** Read the answer of `GET /api/v1/map` into columns. */
export function readColumns(answer: MapAnswer): PoolColumns {
  const { cards } = answer
  const size = cards.id.length
  return {
    seq: answer.seq,
    simulated: answer.simulated,
    nodes: answer.nodes,
    models: answer.models,
    tenants: answer.tenants,
    ...numberWords(cards.mechanism),
    size,
    ids: Int32Array.from(cards.id),
    node: Int32Array.from(cards.node),
    index: Int32Array.from(cards.index),
    model: Int32Array.from(cards.model),
    state: Uint8Array.from(cards.state, (word) => indexOfWord(STATES, word)),
    health: Uint8Array.from(cards.health, (word) => indexOfWord(HEALTHS, word)),
    heldMilli: Int32Array.from(cards.held_milli),
    usedMilli: Int32Array.from(cards.used_milli, (milli) => milli ?? UNKNOWN_USE),
    memoryBytes: Float64Array.from(cards.memory_bytes),
    heldBytes: Float64Array.from(cards.held_bytes),
    largestMilli: Int32Array.from(cards.largest_milli),
    ...sortShares(answer.shares, answer.share_mib, size),
  }
}

/**
 * Read an answer of changes into the columns that it goes on from.
 *
 * @returns the same columns where nothing has changed, so that nothing is drawn again.
 */
export function patchColumns(before: PoolColumns, changes: MapChanges): PoolColumns {
  const { changed, rows } = changes
  if (changed.length === 0 && isSameList(before.tenants, changes.tenants)) return before
  const words = Array.from(before.mechanism, (word) => before.mechanisms[word] ?? null)
  const state = before.state.slice()
  const health = before.health.slice()
  const heldMilli = before.heldMilli.slice()
  const usedMilli = before.usedMilli.slice()
  const memoryBytes = before.memoryBytes.slice()
  const heldBytes = before.heldBytes.slice()
  const largestMilli = before.largestMilli.slice()
  changed.forEach((card, row) => {
    words[card] = rows.mechanism[row]!
    state[card] = indexOfWord(STATES, rows.state[row]!)
    health[card] = indexOfWord(HEALTHS, rows.health[row]!)
    heldMilli[card] = rows.held_milli[row]!
    usedMilli[card] = rows.used_milli[row] ?? UNKNOWN_USE
    memoryBytes[card] = rows.memory_bytes[row]!
    heldBytes[card] = rows.held_bytes[row]!
    largestMilli[card] = rows.largest_milli[row]!
  })
  return {
    ...before,
    seq: changes.seq,
    tenants: changes.tenants,
    ...numberWords(words),
    state,
    health,
    heldMilli,
    usedMilli,
    memoryBytes,
    heldBytes,
    largestMilli,
    ...mergeShares(before, changes),
  }
}

/** Put the shares of changed cards in the place of those they had; the others keep their tenant by name. */
function mergeShares(before: PoolColumns, changes: MapChanges): Shares {
  const positions = new Map(changes.tenants.map((name, position) => [name, position]))
  const moved = before.tenants.map((name) => positions.get(name) ?? OTHER_TENANT)
  const isChanged = new Uint8Array(before.size)
  for (const card of changes.changed) isChanged[card] = 1
  const flat = [...changes.shares]
  const mib = [...changes.share_mib]
  for (let card = 0; card < before.size; card++) {
    if (isChanged[card]) continue
    for (let share = before.shareStart[card]!; share < before.shareStart[card + 1]!; share++) {
      const tenant = before.shareTenant[share]!
      flat.push(card, moved[tenant] ?? OTHER_TENANT, before.shareMilli[share]!)
      mib.push(before.shareMib[share]!)
    }
  }
  return sortShares(flat, mib, before.size)
}

function numberWords(words: readonly (string | null)[]): Pick<PoolColumns, 'mechanism' | 'mechanisms'> {
  const mechanisms = [...new Set(words.filter((word) => word !== null))].sort()
  const numbers = new Map(mechanisms.map((word, number) => [word, number]))
  return { mechanisms, mechanism: Int32Array.from(words, (word) => numbers.get(word ?? '') ?? -1) }
}

function indexOfWord(words: readonly string[], word: string): number {
  const index = words.indexOf(word)
  // A newer server may have a state of its own: show the card as unknown instead of failing.
  return index < 0 ? words.length : index
}

/** Order the shares by card with one counting pass; those of a card keep their order. */
function sortShares(flat: readonly number[], mib: readonly number[], size: number): Shares {
  const count = Math.floor(flat.length / 3)
  const shareStart = new Int32Array(size + 1)
  for (let share = 0; share < count; share++) {
    shareStart[flat[share * 3]! + 1]! += 1
  }
  for (let card = 0; card < size; card++) {
    shareStart[card + 1]! += shareStart[card]!
  }
  const following = shareStart.slice()
  const shareTenant = new Int32Array(count)
  const shareMilli = new Int32Array(count)
  const shareMib = new Int32Array(count)
  for (let share = 0; share < count; share++) {
    const position = following[flat[share * 3]!]!++
    shareTenant[position] = flat[share * 3 + 1]!
    shareMilli[position] = flat[share * 3 + 2]!
    shareMib[position] = mib[share]!
  }
  return { shareStart, shareTenant, shareMilli, shareMib }
}

/** The name of a card as people and the command line write it: `NODE:INDEX`. */
export function nameOf(columns: PoolColumns, card: number): string {
  return `${columns.nodes.name[columns.node[card]!]!}:${columns.index[card]!}`
}

/** Find a card by its name; null where the pool has none of that name. */
export function findCard(columns: PoolColumns, name: string): number | null {
  const node = columns.nodes.name.indexOf(name.slice(0, name.lastIndexOf(':')))
  const index = Number(name.slice(name.lastIndexOf(':') + 1))
  for (let card = 0; card < columns.size; card++) {
    if (columns.node[card] === node && columns.index[card] === index) return card
  }
  return null
}

/** The cards of each node, by the node's name. */
export function countCards(columns: PoolColumns): Map<string, number> {
  const counts = new Map<string, number>()
  for (const node of columns.node) {
    const name = columns.nodes.name[node]!
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}

/** Compute of a card that nothing holds, in thousandths. */
export function freeMilli(columns: PoolColumns, card: number): number {
  return Math.max(0, WHOLE_MILLI - columns.heldMilli[card]!)
}

/** Whether the pool hands this card out now. */
export function isPlaceable(columns: PoolColumns, card: number): boolean {
  return STATES[columns.state[card]!] === 'adopted' && HEALTHS[columns.health[card]!] !== 'failed'
}

/** Whether compute of the card is free and no share can have it, for want of memory. */
export function isStranded(columns: PoolColumns, card: number): boolean {
  return isPlaceable(columns, card) && freeMilli(columns, card) >= LEAST_FREE_MILLI && columns.largestMilli[card] === 0
}

/** The worst of a card's state and health. */
export function conditionOf(columns: PoolColumns, card: number): Condition {
  const state = STATES[columns.state[card]!]
  const health = HEALTHS[columns.health[card]!]
  if (state === 'lost') return 'lost'
  if (health === 'failed') return 'failed'
  if (state === 'draining') return 'draining'
  if (health === 'warning') return 'warning'
  if (state === 'observed') return 'observed'
  return state === undefined || health === undefined || health === 'unknown' ? 'unknown' : 'ok'
}

/** Part of the held compute that is used, 0 to 1; null where it is unknown or nothing is held. */
export function computeUse(columns: PoolColumns, card: number): number | null {
  const held = columns.heldMilli[card]!
  const used = columns.usedMilli[card]!
  return held === 0 || used === UNKNOWN_USE ? null : Math.min(1, used / held)
}

/**
 * The cards that look different in two answers.
 *
 * @returns null where the cards, nodes or tenants themselves differ, so that all is to be drawn.
 */
export function findChangedCards(before: PoolColumns, after: PoolColumns): number[] | null {
  if (!hasSameShape(before, after)) return null
  const changed: number[] = []
  for (let card = 0; card < after.size; card++) {
    if (!isSameCard(before, after, card)) changed.push(card)
  }
  return changed
}

function hasSameShape(before: PoolColumns, after: PoolColumns): boolean {
  return (
    before.size === after.size &&
    isSameList(before.ids, after.ids) &&
    isSameList(before.node, after.node) &&
    isSameList(before.index, after.index) &&
    isSameList(before.model, after.model) &&
    isSameList(before.models, after.models) &&
    isSameList(before.tenants, after.tenants) &&
    isSameList(before.mechanisms, after.mechanisms) &&
    isSameList(before.nodes.name, after.nodes.name) &&
    isSameList(before.nodes.rack, after.nodes.rack) &&
    isSameList(before.nodes.domain, after.nodes.domain)
  )
}

function isSameList(before: ArrayLike<unknown>, after: ArrayLike<unknown>): boolean {
  if (before.length !== after.length) return false
  for (let index = 0; index < before.length; index++) {
    if (before[index] !== after[index]) return false
  }
  return true
}

const COMPARED = [
  'state',
  'health',
  'mechanism',
  'heldMilli',
  'usedMilli',
  'memoryBytes',
  'heldBytes',
  'largestMilli',
] as const

function isSameCard(before: PoolColumns, after: PoolColumns, card: number): boolean {
  for (const column of COMPARED) {
    if (before[column][card] !== after[column][card]) return false
  }
  const first = before.shareStart[card]!
  const count = before.shareStart[card + 1]! - first
  const second = after.shareStart[card]!
  if (after.shareStart[card + 1]! - second !== count) return false
  for (let share = 0; share < count; share++) {
    if (before.shareTenant[first + share] !== after.shareTenant[second + share]) return false
    if (before.shareMilli[first + share] !== after.shareMilli[second + share]) return false
    if (before.shareMib[first + share] !== after.shareMib[second + share]) return false
  }
  return true
}
