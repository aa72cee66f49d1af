/** Plans of moves: what a form asks for, and what a plan comes to. Pure. */
import type { components } from '../../api/schema'

type Schemas = components['schemas']
export type Move = Schemas['MoveOut']
export type DefragPlan = Schemas['DefragOut']
export type RebalancePlan = Schemas['RebalanceOut']
export type Moved = Schemas['MovesOut']

/** What the form has: texts as they are typed; empty is no limit. */
export interface Limits {
  cards: string
  blocks: string
  maxMoves: string
  maxPerTenant: string
  maxLostHours: string
}

export const NO_LIMITS: Limits = { cards: '', blocks: '', maxMoves: '', maxPerTenant: '', maxLostHours: '' }
const HOUR_SECONDS = 3600
/** The smallest value of each limit that the server takes. */
const LEAST: Record<keyof Limits, number> = { cards: 1, blocks: 1, maxMoves: 0, maxPerTenant: 0, maxLostHours: 0 }

/** Limits with a value that no plan can have. */
export function findFaults(limits: Limits): Set<keyof Limits> {
  const faults = new Set<keyof Limits>()
  for (const name of Object.keys(LEAST) as (keyof Limits)[]) {
    const text = limits[name].trim()
    const value = Number(text)
    const isWhole = name === 'maxLostHours' || Number.isInteger(value)
    if (text !== '' && !(isWhole && value >= LEAST[name] && value <= 10_000)) faults.add(name)
  }
  return faults
}

const orNull = (text: string): number | null => (text.trim() === '' ? null : Number(text))

/** The limits that both plans have, as the API takes them. */
export function makeMoveLimits(limits: Limits) {
  const hours = orNull(limits.maxLostHours)
  return {
    max_moves: orNull(limits.maxMoves),
    max_moves_per_tenant: orNull(limits.maxPerTenant),
    max_lost_seconds: hours === null ? null : Math.round(hours * HOUR_SECONDS),
  }
}

export const makeDefragBody = (limits: Limits) => ({
  ...makeMoveLimits(limits),
  cards: orNull(limits.cards),
  blocks: orNull(limits.blocks),
})

/** The moves of a plan as `POST /api/v1/defrag/moves` takes them. */
export const makeMovesBody = (moves: readonly Move[]) => ({
  moves: moves.map(({ job, cards, generations }) => ({ job, cards, generations })),
})

/** How many jobs of each tenant move and what they lose, the largest loss first. */
export function sumByTenant(moves: readonly Move[]): { tenant: string; jobs: number; lostSeconds: number }[] {
  const sums = new Map<string, { tenant: string; jobs: number; lostSeconds: number }>()
  for (const move of moves) {
    const sum = sums.get(move.tenant) ?? { tenant: move.tenant, jobs: 0, lostSeconds: 0 }
    sum.jobs += 1
    sum.lostSeconds += move.lost_seconds
    sums.set(move.tenant, sum)
  }
  return [...sums.values()].sort((one, other) => other.lostSeconds - one.lostSeconds)
}
