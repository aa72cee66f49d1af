/** Advice for families of jobs: what it would change of those that run, and what it comes to. Pure. */
import type { components } from '../../api/schema'
import { GIB, MIB, MILLI } from '../../ui/format'

type Schemas = components['schemas']
export type Advice = Schemas['AdviceOut']
export type LiveRun = Schemas['LiveRunOut']
export type Backtest = Schemas['BacktestOut']
export type Method = Schemas['MethodOut']
export type Policy = Schemas['AdvicePolicyOut']
export type PolicyBody = Schemas['AdvicePolicyIn']

export interface Resize {
  readonly run: LiveRun
  /** What changes; the rest stays. */
  readonly body: { readonly gpu_milli?: number; readonly memory_bytes?: number }
}

function makeBody(run: LiveRun, advice: Pick<Advice, 'gpu_milli' | 'memory_bytes'>): Resize['body'] {
  const body: { gpu_milli?: number; memory_bytes?: number } = {}
  // A run without a promise keeps none.
  if (advice.gpu_milli !== null && run.gpu_milli > 0 && advice.gpu_milli !== run.gpu_milli)
    body.gpu_milli = advice.gpu_milli
  if (advice.memory_bytes !== null && advice.memory_bytes !== run.memory_bytes) body.memory_bytes = advice.memory_bytes
  return body
}

/** The running jobs of a family that would get another size. */
export function planResizes(advice: Advice): Resize[] {
  if (advice.advice === 'unknown') return []
  return advice.live
    .filter((run) => run.fixed === '')
    .map((run) => ({ run, body: makeBody(run, advice) }))
    .filter((resize) => Object.keys(resize.body).length > 0)
}

/** What a policy proposes for a running job. */
export interface Proposal {
  readonly family: Advice
  readonly resize: Resize
}

/** Proposals of policies that would change their jobs, in the order of the families. */
export function listProposals(families: readonly Advice[]): Proposal[] {
  const found: Proposal[] = []
  for (const family of families) {
    for (const run of family.live) {
      const proposed = { gpu_milli: run.proposed_milli ?? null, memory_bytes: run.proposed_bytes ?? null }
      const body = makeBody(run, proposed)
      if (run.fixed === '' && Object.keys(body).length > 0) found.push({ family, resize: { run, body } })
    }
  }
  return found
}

/** Cards in thousandths that come free with these changes of jobs with one card each or more. */
export const sumFreed = (proposals: readonly Proposal[]): number =>
  proposals.reduce(
    (sum, { family, resize }) =>
      sum + (resize.run.gpu_milli - (resize.body.gpu_milli ?? resize.run.gpu_milli)) * (family.cards ?? 1),
    0,
  )

/** Names of families that a policy can be about; those of other letters it cannot name. */
const NAMABLE = /^[a-z][a-z-]{0,79}$/

/** Whether a policy can name this family. */
export const isNamable = (family: Pick<Advice, 'pattern'>): boolean => NAMABLE.test(family.pattern)

/**
 * A policy that leaves a family alone. Its bounds are the tightest of all: a tenant's policy that
 * allows more than the pool's is refused, one that is off too.
 */
export function makeSilence(family: Advice, policies: readonly Policy[]): PolicyBody {
  const highest = (least: number, values: number[]) => Math.max(least, ...values)
  return {
    tenant: family.tenant,
    project: family.project,
    families: family.pattern,
    mode: 'off',
    target: 'both',
    least_milli: highest(
      50,
      policies.map((policy) => policy.least_milli),
    ),
    most_cut_percent: Math.min(50, ...policies.map((policy) => policy.most_cut_percent)),
    least_bytes: highest(
      GIB,
      policies.map((policy) => policy.least_bytes),
    ),
    confidence: 'high',
  }
}

export interface AdviceSum {
  readonly shrink: number
  readonly grow: number
  /** Cards in thousandths that would come free; null: known of no family. */
  readonly savedMilli: number | null
}

/** How many families should ask for less or for more, and what less would free. */
export function sumAdvice(families: readonly Advice[]): AdviceSum {
  const saved = families
    .filter((family) => family.advice === 'shrink' && family.saved_milli !== null)
    .map((family) => family.saved_milli ?? 0)
  return {
    shrink: families.filter((family) => family.advice === 'shrink').length,
    grow: families.filter((family) => family.advice === 'grow').length,
    savedMilli: saved.length > 0 ? saved.reduce((sum, milli) => sum + milli, 0) : null,
  }
}

/** Options of the command for the next jobs of a family; empty where nothing is advised. */
export function writeOptions(advice: Advice): string {
  const words: string[] = []
  if (advice.gpu_milli) words.push(`--gpu ${advice.gpu_milli / MILLI}`)
  if (advice.memory_bytes !== null)
    words.push(
      advice.memory_bytes % GIB === 0
        ? `--memory ${advice.memory_bytes / GIB}GiB`
        : `--memory ${Math.ceil(advice.memory_bytes / MIB)}MiB`,
    )
  return words.join(' ')
}
