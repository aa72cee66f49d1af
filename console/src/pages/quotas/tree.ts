/** The quota tree: its rows, its scale, and what a change would bring. Pure. */

/** One limit of a node, as `GET /api/v1/quotas` gives it. */
export interface QuotaUse {
  resource: string
  nominal: number
  borrowing: number | null
  lending: number | null
  held: number
  borrowed: number
  lent: number
}

export interface QuotaNode {
  kind: 'pool' | 'cohort' | 'tenant'
  name: string
  /** The cohort above it; null: directly below the pool, and of the pool itself. */
  parent: string | null
  weight_milli: number
  limits: QuotaUse[]
  held_milli: number
  held_memory_bytes: number
  share_percent: number
  due_percent: number
  past_card_hours: number
}

/** Compute over all cards, in thousandths of a card. */
export const COMPUTE = 'gpu'
export const MEMORY = 'memory'

/** What tells two nodes apart: a tenant may have the name of a cohort. */
export const keyOf = (node: Pick<QuotaNode, 'kind' | 'name'>): string => `${node.kind} ${node.name}`

/** The row that was chosen; the first one below the pool where none is. */
export const findChosen = (rows: readonly QuotaRow[], chosen: string | null): QuotaRow | undefined =>
  rows.find((row) => keyOf(row.node) === chosen) ?? rows.find((row) => row.node.kind !== 'pool')

export interface QuotaRow {
  readonly node: QuotaNode
  readonly level: number
  readonly heldMilli: number
  /** Null: nothing is guaranteed and nothing limited. */
  readonly guaranteeMilli: number | null
  /** Null: no limit. */
  readonly limitMilli: number | null
  readonly borrowedMilli: number
  readonly lentMilli: number
}

/** The nodes as rows, each after its parent, with how deep it is. */
export function listRows(nodes: readonly QuotaNode[]): QuotaRow[] {
  const levels = new Map<string, number>()
  return nodes.map((node) => {
    const level = node.kind === 'pool' || nodes.length === 1 ? 0 : (levels.get(node.parent ?? '') ?? 0) + 1
    if (node.kind !== 'tenant') levels.set(node.kind === 'pool' ? '' : node.name, level)
    const compute = node.limits.find((limit) => limit.resource === COMPUTE)
    return {
      node,
      level,
      heldMilli: node.held_milli,
      guaranteeMilli: compute?.nominal ?? null,
      limitMilli: limitOf(compute),
      borrowedMilli: compute?.borrowed ?? 0,
      lentMilli: compute?.lent ?? 0,
    }
  })
}

function limitOf(use: QuotaUse | undefined): number | null {
  return use === undefined || use.borrowing === null ? null : use.nominal + use.borrowing
}

/** What the whole width of a bar stands for: the largest number of the tree. */
export function findScale(rows: readonly QuotaRow[], capacityMilli: number): number {
  let most = Math.max(1000, capacityMilli)
  for (const row of rows) {
    most = Math.max(most, row.heldMilli, row.guaranteeMilli ?? 0, row.limitMilli ?? 0)
  }
  return most
}

export interface Change {
  readonly guaranteeMilli: number
  /** How far over the guarantee; null: any amount. */
  readonly borrowingMilli: number | null
}

/** What would follow from a change, as facts with numbers; the page words them. */
export interface Consequences {
  readonly guaranteedBeforeMilli: number
  readonly guaranteedAfterMilli: number
  readonly capacityMilli: number
  /** Guarantees of the parent's children are more than the parent has. */
  readonly exceedsParent: boolean
  readonly limitBeforeMilli: number | null
  readonly limitAfterMilli: number | null
  /** Held beyond the new limit: it goes on, and nothing more starts. */
  readonly overLimitMilli: number
  /** What others borrow now and this node could ask back, with the nodes that would give. */
  readonly reclaimableMilli: number
  readonly givers: readonly string[]
  /** What becomes free for others to borrow. */
  readonly freedMilli: number
}

/** Compare a node of the tree before and after a change of its compute. */
export function compareChange(
  rows: readonly QuotaRow[],
  row: QuotaRow,
  change: Change,
  capacityMilli: number,
): Consequences {
  const siblings = rows.filter((each) => each.node.parent === row.node.parent && each.node.kind !== 'pool')
  const guaranteed = siblings.reduce((sum, each) => sum + (each.guaranteeMilli ?? 0), 0)
  const after = guaranteed - (row.guaranteeMilli ?? 0) + change.guaranteeMilli
  const parent = rows.find((each) => each.node.kind === 'cohort' && each.node.name === row.node.parent)
  const roof = parent?.guaranteeMilli ?? capacityMilli
  const limitAfter = change.borrowingMilli === null ? null : change.guaranteeMilli + change.borrowingMilli
  const rises = change.guaranteeMilli > (row.guaranteeMilli ?? 0)
  const more = rises ? Math.max(0, change.guaranteeMilli - row.heldMilli) : 0
  const borrowers = siblings.filter((each) => each !== row && each.borrowedMilli > 0)
  const borrowed = borrowers.reduce((sum, each) => sum + each.borrowedMilli, 0)
  return {
    guaranteedBeforeMilli: guaranteed,
    guaranteedAfterMilli: after,
    capacityMilli: roof,
    exceedsParent: after > roof,
    limitBeforeMilli: row.limitMilli,
    limitAfterMilli: limitAfter,
    overLimitMilli: limitAfter === null ? 0 : Math.max(0, row.heldMilli - limitAfter),
    reclaimableMilli: Math.min(more, borrowed),
    givers: more > 0 ? borrowers.map((each) => each.node.name) : [],
    freedMilli: Math.max(0, (row.guaranteeMilli ?? 0) - change.guaranteeMilli),
  }
}

/** Parse an amount of cards as people write it to thousandths; null where it is none. */
export function parseCards(text: string): number | null {
  const trimmed = text.trim()
  if (!/^\d{1,6}([.,]\d{1,3})?$/.test(trimmed)) return null
  return Math.round(Number(trimmed.replace(',', '.')) * 1000)
}
