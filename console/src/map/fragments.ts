/** What is free, and in which pieces: the figures beside the map. */

import { freeMilli, isPlaceable, isStranded, type PoolColumns, WHOLE_MILLI } from './columns'

export interface ModelFragments {
  readonly model: string
  readonly cards: number
  readonly heldMilli: number
  /** Free on cards that are handed out. */
  readonly freeMilli: number
  /** Of it, on cards of which nothing is held. */
  readonly wholeCards: number
  /** Of it, on cards of which a part is held: pieces smaller than a card. */
  readonly fragmentMilli: number
  /** Of it, compute that no share can have, for want of memory. */
  readonly strandedMilli: number
  /** The largest share that one card can take now. */
  readonly largestMilli: number
  /** Pieces of free compute by their size: less than a quarter, a half, a whole card, whole. */
  readonly pieces: readonly [number, number, number, number]
}

/** Sum what is free by model, models in the order of their names. */
export function countFragments(columns: PoolColumns): ModelFragments[] {
  const sums = columns.models.map((model) => ({
    model,
    cards: 0,
    heldMilli: 0,
    freeMilli: 0,
    wholeCards: 0,
    fragmentMilli: 0,
    strandedMilli: 0,
    largestMilli: 0,
    pieces: [0, 0, 0, 0] as [number, number, number, number],
  }))
  for (let card = 0; card < columns.size; card++) {
    const sum = sums[columns.model[card]!]!
    sum.cards += 1
    sum.heldMilli += columns.heldMilli[card]!
    if (!isPlaceable(columns, card)) continue
    const free = freeMilli(columns, card)
    sum.largestMilli = Math.max(sum.largestMilli, columns.largestMilli[card]!)
    sum.freeMilli += free
    if (free === WHOLE_MILLI) sum.wholeCards += 1
    else sum.fragmentMilli += free
    if (isStranded(columns, card)) sum.strandedMilli += free
    if (free > 0) sum.pieces[sizeOfPiece(free)]! += 1
  }
  return sums.filter((sum) => sum.cards > 0).sort((first, second) => (first.model < second.model ? -1 : 1))
}

function sizeOfPiece(milli: number): 0 | 1 | 2 | 3 {
  if (milli >= WHOLE_MILLI) return 3
  if (milli >= 500) return 2
  return milli >= 250 ? 1 : 0
}
