/** What a screen reader says of a card. */

import { computeUse, conditionOf, freeMilli, nameOf, OTHER_TENANT, type PoolColumns, WHOLE_MILLI } from './columns'

/** A sentence of the catalogue of page `map` with its values. */
export type Translate = (key: string, values?: Record<string, string | number>) => string

/** Shares that are named one by one; the rest is a number. */
const MOST_SHARES = 6

/** Describe a card in one sentence: where it is, its shares, what is free, what is wrong. */
export function describeCard(columns: PoolColumns, card: number, t: Translate): string {
  const first = columns.shareStart[card]!
  const end = columns.shareStart[card + 1]!
  const parts: string[] = []
  for (let share = first; share < Math.min(end, first + MOST_SHARES); share++) {
    const tenant = columns.shareTenant[share]!
    const name = tenant === OTHER_TENANT ? t('map:anotherTenant') : columns.tenants[tenant]!
    parts.push(`${name} ${formatMilli(columns.shareMilli[share]!)}`)
  }
  if (end - first > MOST_SHARES) parts.push(t('map:moreShares', { count: end - first - MOST_SHARES }))
  parts.push(t('map:freeAmount', { amount: formatMilli(freeMilli(columns, card)) }))
  const use = computeUse(columns, card)
  if (use !== null) parts.push(t('map:useAmount', { percent: Math.round(use * 100) }))
  const condition = conditionOf(columns, card)
  if (condition !== 'ok') parts.push(t(`map:condition.${condition}`))
  const model = columns.models[columns.model[card]!]!
  return `${nameOf(columns, card)}, ${model}: ${parts.join(', ')}`
}

/** Compute as a share of cards, always with two decimals. */
export function formatMilli(milli: number): string {
  return (milli / WHOLE_MILLI).toFixed(2)
}
