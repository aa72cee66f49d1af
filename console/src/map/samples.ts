/** Small maps for tests. */

import { type MapAnswer, type PoolColumns, readColumns } from './columns'

/** Two racks; node-10 has two H200, node-2 two L40S, node-3 one L40S that failed. */
export function makeAnswer(changes: Partial<MapAnswer['cards']> = {}): MapAnswer {
  return {
    seq: 7,
    simulated: true,
    nodes: {
      name: ['node-10', 'node-2', 'node-3'],
      rack: ['r1', 'r2', null],
      domain: ['d1', 'd1', null],
    },
    cards: {
      id: [11, 12, 13, 14, 15],
      node: [0, 0, 1, 1, 2],
      index: [0, 1, 0, 1, 0],
      model: [0, 0, 1, 1, 1],
      state: ['adopted', 'adopted', 'adopted', 'draining', 'adopted'],
      health: ['ok', 'warning', 'ok', 'ok', 'failed'],
      mechanism: ['timeslice', null, 'mps', 'mps', null],
      held_milli: [750, 0, 900, 0, 0],
      used_milli: [300, null, null, 0, 0],
      memory_bytes: [141 * 2 ** 30, 141 * 2 ** 30, 45 * 2 ** 30, 45 * 2 ** 30, 45 * 2 ** 30],
      held_bytes: [60 * 2 ** 30, 0, 45 * 2 ** 30, 0, 0],
      largest_milli: [250, 1000, 0, 0, 0],
      ...changes,
    },
    models: ['H200', 'L40S'],
    tenants: ['vision', 'nlp'],
    // Out of order of the cards, as a join may give them.
    shares: [2, -1, 900, 0, 0, 500, 0, 1, 250],
    share_mib: [45 * 1024, 40 * 1024, 20 * 1024],
  }
}

export function makeColumns(changes: Partial<MapAnswer['cards']> = {}): PoolColumns {
  return readColumns(makeAnswer(changes))
}

/** A pool of so many cards, eight a node and 32 nodes a rack, each with up to four shares. */
export function makeLargeAnswer(size: number, tenants = 12): MapAnswer {
  let seed = 20261129
  const draw = (): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return seed / 2 ** 32
  }
  const nodes = Math.ceil(size / 8)
  const cards = Array.from({ length: size }, (_, card) => card)
  const answer: MapAnswer = {
    seq: 1,
    simulated: true,
    nodes: {
      name: Array.from({ length: nodes }, (_, node) => `node-${node + 1}`),
      rack: Array.from({ length: nodes }, (_, node) => `rack-${Math.floor(node / 32) + 1}`),
      domain: Array.from({ length: nodes }, (_, node) => `block-${Math.floor(node / 128) + 1}`),
    },
    cards: {
      id: cards.map((card) => card + 1),
      node: cards.map((card) => Math.floor(card / 8)),
      index: cards.map((card) => card % 8),
      model: cards.map((card) => Math.floor(card / 8) % 3),
      state: cards.map(() => (draw() < 0.01 ? 'draining' : 'adopted')),
      health: cards.map(() => (draw() < 0.005 ? 'failed' : 'ok')),
      mechanism: cards.map(() => 'timeslice'),
      held_milli: cards.map(() => 0),
      used_milli: cards.map(() => null),
      memory_bytes: cards.map(() => 80 * 2 ** 30),
      held_bytes: cards.map(() => 0),
      largest_milli: cards.map(() => 1000),
    },
    models: ['H200', 'A100', 'L40S'],
    tenants: Array.from({ length: tenants }, (_, tenant) => `tenant-${tenant + 1}`),
    shares: [],
    share_mib: [],
  }
  for (const card of cards) {
    let held = 0
    for (let share = Math.floor(draw() * 5); share > 0; share--) {
      const milli = Math.min(1000 - held, 50 + Math.floor(draw() * 6) * 50)
      if (milli <= 0) break
      answer.shares.push(card, Math.floor(draw() * tenants), milli)
      answer.share_mib.push(milli * 80)
      held += milli
    }
    answer.cards.held_milli[card] = held
    answer.cards.held_bytes[card] = held * 80 * 2 ** 20
    answer.cards.used_milli[card] = Math.floor(held * draw())
    answer.cards.largest_milli[card] = 1000 - held
  }
  return answer
}
