/** The cards of the pool in groups and rows: what stands beside what on the map. */

import { OTHER_TENANT, type PoolColumns } from './columns'

export const GROUPINGS = ['rack', 'node', 'domain', 'model', 'tenant'] as const
export type Grouping = (typeof GROUPINGS)[number]

/** Cards of one line: those of a node, or the next few of a tenant. */
export interface CardRow {
  readonly label: string
  readonly model: string
  readonly cards: readonly number[]
}

export interface CardGroup {
  /** Empty where all cards are one group, or where a node names no rack or domain. */
  readonly title: string
  /** The tenant that the group is about; the shares of others are drawn faded. */
  readonly tenant: number | null
  readonly rows: readonly CardRow[]
  readonly cards: number
}

/** Cards in one line where a group has no nodes of its own. */
const CARDS_A_LINE = 8
/** Cards of a node in one line: larger nodes take several. */
const MOST_IN_LINE = 16

/** Sort the cards into groups; groups and nodes come in the order of their names. */
export function groupCards(columns: PoolColumns, grouping: Grouping): CardGroup[] {
  if (grouping === 'tenant') return groupByTenant(columns)
  const cards = sortCards(columns)
  if (grouping === 'node') return [makeGroup(columns, '', cards)]
  const titles = new Map<string, number[]>()
  for (const card of cards) {
    const title = titleOf(columns, grouping, card)
    const found = titles.get(title)
    if (found) found.push(card)
    else titles.set(title, [card])
  }
  return [...titles]
    .sort(([first], [second]) => compareNames(first, second))
    .map(([title, members]) => makeGroup(columns, title, members))
}

function titleOf(columns: PoolColumns, grouping: Grouping, card: number): string {
  if (grouping === 'model') return columns.models[columns.model[card]!] ?? ''
  const words = grouping === 'rack' ? columns.nodes.rack : columns.nodes.domain
  return words[columns.node[card]!] ?? ''
}

const COLLATOR = new Intl.Collator('en', { numeric: true })

/** Names with numbers in the order that people count: node-2 before node-10; no name comes last. */
export function compareNames(first: string, second: string): number {
  if (first === '' || second === '') return first === second ? 0 : first === '' ? 1 : -1
  return COLLATOR.compare(first, second)
}

function sortCards(columns: PoolColumns): number[] {
  const nodes = columns.nodes.name.map((_, node) => node)
  nodes.sort((first, second) => compareNames(columns.nodes.name[first]!, columns.nodes.name[second]!))
  const place = new Int32Array(nodes.length)
  nodes.forEach((node, position) => {
    place[node] = position
  })
  const cards = Array.from({ length: columns.size }, (_, card) => card)
  return cards.sort(
    (first, second) =>
      place[columns.node[first]!]! - place[columns.node[second]!]! || columns.index[first]! - columns.index[second]!,
  )
}

function makeGroup(columns: PoolColumns, title: string, cards: readonly number[]): CardGroup {
  const rows: CardRow[] = []
  for (let first = 0; first < cards.length; ) {
    const node = columns.node[cards[first]!]!
    let end = first
    while (end < cards.length && columns.node[cards[end]!] === node) end++
    for (let start = first; start < end; start += MOST_IN_LINE) {
      rows.push({
        label: start === first ? columns.nodes.name[node]! : '',
        model: start === first ? columns.models[columns.model[cards[first]!]!]! : '',
        cards: cards.slice(start, Math.min(end, start + MOST_IN_LINE)),
      })
    }
    first = end
  }
  return { title, tenant: null, rows, cards: cards.length }
}

function groupByTenant(columns: PoolColumns): CardGroup[] {
  const members = new Map<number, number[]>()
  for (const card of sortCards(columns)) {
    for (let share = columns.shareStart[card]!; share < columns.shareStart[card + 1]!; share++) {
      const tenant = columns.shareTenant[share]!
      const cards = members.get(tenant) ?? []
      if (cards.at(-1) !== card) cards.push(card)
      members.set(tenant, cards)
    }
  }
  // Tenants that the caller may not see are one group without a name, behind the others.
  const order = [...members.keys()].sort((first, second) =>
    compareNames(columns.tenants[first] ?? '', columns.tenants[second] ?? ''),
  )
  return order.map((tenant) => {
    const cards = members.get(tenant)!
    const rows: CardRow[] = []
    for (let first = 0; first < cards.length; first += CARDS_A_LINE) {
      rows.push({ label: '', model: '', cards: cards.slice(first, first + CARDS_A_LINE) })
    }
    return {
      title: tenant === OTHER_TENANT ? '' : columns.tenants[tenant]!,
      tenant,
      rows,
      cards: cards.length,
    }
  })
}

/** What is held of the cards of a group; of a group of a tenant, what the tenant holds of them. */
export function sumHeldMilli(columns: PoolColumns, group: CardGroup): number {
  let sum = 0
  for (const row of group.rows) {
    for (const card of row.cards) {
      sum += group.tenant === null ? columns.heldMilli[card]! : sumOfTenant(columns, card, group)
    }
  }
  return sum
}

function sumOfTenant(columns: PoolColumns, card: number, group: CardGroup): number {
  let sum = 0
  for (let share = columns.shareStart[card]!; share < columns.shareStart[card + 1]!; share++) {
    if (columns.shareTenant[share] === group.tenant) sum += columns.shareMilli[share]!
  }
  return sum
}
