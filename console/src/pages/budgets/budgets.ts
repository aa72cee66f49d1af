/** Budgets as the API has them, in units that people write. Pure, but for the two questions at the end. */
import { request } from '../../api/client'
import { getTagged, putTagged, type Tagged } from '../../api/lists'
import type { components } from '../../api/schema'

export type Budget = components['schemas']['BudgetOut']
export type BudgetBody = components['schemas']['BudgetIn']
export type Unit = 'money' | 'gpu-hours'
export type Effect = 'warn' | 'hold' | 'preempt'

const MICRO = 1e6
const HOUR_MS = 3_600_000
const HOUR_SECONDS = 3600

/** What one written unit is in the API's: micro-units of money, or milliseconds of a card. */
const sizeOf = (unit: string): number => (unit === 'money' ? MICRO : HOUR_MS)

/** An amount of the API as money or card-hours. */
export const toWritten = (amount: number, unit: string): number => amount / sizeOf(unit)

/** Commas between thousands (or lakhs); any other comma may be a decimal one, which would be read a hundredfold. */
const GROUPED = /^\d{1,3}(,\d{2,3})*,\d{3}(\.\d*)?$/

/** What was typed as an amount of the API; null: no amount above zero. */
export function parseAmount(text: string, unit: string): number | null {
  const written = text.trim()
  const typed = GROUPED.test(written) ? written.replaceAll(',', '') : written
  const value = Number(typed)
  if (typed === '' || !Number.isFinite(value) || value <= 0) return null
  const amount = Math.round(value * sizeOf(unit))
  return Number.isSafeInteger(amount) && amount >= 1 ? amount : null
}

/** Percentages as they are typed, `50, 80`; null: one of them is none. */
export function parsePercents(text: string): number[] | null {
  const words = text.split(/[\s,%]+/).filter((word) => word !== '')
  const percents = words.map(Number)
  const areValid = percents.every((percent) => Number.isInteger(percent) && percent >= 1 && percent <= 1000)
  return areValid ? percents : null
}

/** What a form has of a budget: texts as they are typed. */
export interface Draft {
  tenant: string
  project: string
  user: string
  period: 'month' | 'quarter'
  timezone: string
  unit: Unit
  amount: string
  warn: string
  hold: string
  preempt: string
  graceHours: string
  onLimit: Effect
}

export function makeDraft(budget: Budget | null, tenant: string, timezone: string): Draft {
  return {
    tenant: budget?.tenant ?? tenant,
    project: budget?.project ?? '',
    user: budget?.user ?? '',
    period: (budget?.period ?? 'month') as Draft['period'],
    timezone: budget?.timezone ?? timezone,
    unit: (budget?.unit ?? 'money') as Unit,
    amount: budget === null ? '' : String(toWritten(budget.amount, budget.unit)),
    warn: (budget?.warn_percents ?? [50, 80]).join(', '),
    hold: String(budget?.hold_percent ?? 100),
    preempt: String(budget?.preempt_percent ?? 110),
    graceHours: String((budget?.grace_seconds ?? 86_400) / HOUR_SECONDS),
    onLimit: (budget?.on_limit ?? 'hold') as Effect,
  }
}

/** Fields of a draft with a value that no budget can have. */
export function findFaults(draft: Draft): Set<keyof Draft> {
  const faults = new Set<keyof Draft>()
  const hours = Number(draft.graceHours)
  if (draft.tenant === '') faults.add('tenant')
  if (parseAmount(draft.amount, draft.unit) === null) faults.add('amount')
  if (parsePercents(draft.warn) === null) faults.add('warn')
  if (parsePercents(draft.hold)?.length !== 1) faults.add('hold')
  if (parsePercents(draft.preempt)?.length !== 1) faults.add('preempt')
  if (draft.graceHours.trim() === '' || !(hours >= 0 && hours <= 8784)) faults.add('graceHours')
  return faults
}

/** The body of `PUT /api/v1/budgets` of a draft without faults. */
export function makeBody(draft: Draft, force: boolean): BudgetBody {
  return {
    tenant: draft.tenant,
    project: draft.project.trim() || null,
    user: draft.user.trim() || null,
    period: draft.period,
    timezone: draft.timezone.trim(),
    unit: draft.unit,
    amount: parseAmount(draft.amount, draft.unit) ?? 0,
    warn_percents: parsePercents(draft.warn) ?? [],
    hold_percent: parsePercents(draft.hold)?.[0] ?? 0,
    preempt_percent: parsePercents(draft.preempt)?.[0] ?? 0,
    grace_seconds: Math.round(Number(draft.graceHours) * HOUR_SECONDS),
    on_limit: draft.onLimit,
    force,
  }
}

/** Where a bar of a budget ends: behind whatever it has to show. */
export function findScale(budget: Budget): number {
  const percents = budget.thresholds.map((threshold) => (threshold.percent / 100) * budget.amount)
  return Math.max(budget.amount, budget.spent, budget.forecast?.high ?? 0, ...percents) * 1.02
}

/** The budget whose money ends first in its period; null: of none this is foreseen. */
export function findFirstOut(budgets: readonly Budget[]): Budget | null {
  const running = budgets.filter((budget) => budget.forecast?.runs_out_ns != null)
  running.sort((one, other) => (one.forecast?.runs_out_ns ?? 0) - (other.forecast?.runs_out_ns ?? 0))
  return running[0] ?? null
}

export const listBudgets = () => request<Budget[]>('/api/v1/budgets')
export const fetchBudget = (id: string) => getTagged<Budget>(`/api/v1/budgets/${encodeURIComponent(id)}`)

/** The tag of a budget that is not there yet: a budget that came meanwhile is not replaced unseen. */
export const NEW_TAG = '"0"'

export const putBudget = (body: BudgetBody, tag: string): Promise<Tagged<Budget>> =>
  putTagged<Budget>('/api/v1/budgets', tag, body)
