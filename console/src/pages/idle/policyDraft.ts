/** An idle policy as it is typed, and what it would do to the jobs that are idle now. Pure. */
import type { components } from '../../api/schema'
import type { IdleJob, IdlePolicy } from './idle'

type Schemas = components['schemas']
export type PolicyBody = Schemas['IdlePolicyIn']
export type IdleAct = Schemas['IdleStepIn']['act']
export type IdleKind = NonNullable<IdlePolicy['kind']>

/** In the order in which they come. */
export const ACTS: readonly IdleAct[] = ['warn', 'shrink', 'suspend', 'stop']
export const KINDS: readonly IdleKind[] = ['notebook', 'gang', 'container', 'job']
const MINUTE = 60
const HOUR = 3600
const MILLI = 1000
const MOST_MINUTES = 366 * 24 * 60

/** Minutes by act; empty: there is no such step. */
export interface PolicyDraft {
  tenant: string
  project: string
  kind: IdleKind | ''
  mode: IdlePolicy['mode']
  after: Record<IdleAct, string>
  shrinkTo: string
  windowMinutes: string
  keepHours: string
  keepsPerDay: string
}

export function makeDraft(policy: IdlePolicy | null, tenant: string): PolicyDraft {
  const minutes = (act: IdleAct): string => {
    const step = policy?.steps.find((each) => each.act === act)
    return step === undefined ? '' : String(step.after_seconds / MINUTE)
  }
  const share = policy?.steps.find((each) => each.act === 'shrink')?.gpu_milli ?? 50
  return {
    tenant: policy === null || policy.tenant === null ? tenant : policy.tenant,
    project: policy?.project ?? '',
    kind: policy?.kind ?? '',
    // A new policy first says what it would have done.
    mode: policy?.mode ?? 'dry-run',
    after: {
      warn: policy === null ? '50' : minutes('warn'),
      shrink: minutes('shrink'),
      suspend: minutes('suspend'),
      stop: policy === null ? '120' : minutes('stop'),
    },
    shrinkTo: String(share / MILLI),
    windowMinutes: String((policy?.window_seconds ?? 5 * MINUTE) / MINUTE),
    keepHours: String((policy?.keep_seconds ?? 2 * HOUR) / HOUR),
    keepsPerDay: String(policy?.keeps_per_day ?? 2),
  }
}

export type PolicyFault = IdleAct | 'shrinkTo' | 'windowMinutes' | 'keepHours' | 'keepsPerDay'

const isWithin = (text: string, least: number, most: number): boolean =>
  text.trim() !== '' && Number(text) >= least && Number(text) <= most

/** What no policy can have; that steps contradict each other is the server's to say. */
export function findFaults(draft: PolicyDraft): Set<PolicyFault> {
  const faults = new Set<PolicyFault>()
  for (const act of ACTS) {
    const isMissing = draft.after[act].trim() === ''
    if (isMissing ? act === 'warn' : !isWithin(draft.after[act], 1 / MINUTE, MOST_MINUTES)) faults.add(act)
  }
  if (draft.after.shrink.trim() !== '' && !isWithin(draft.shrinkTo, 1 / MILLI, 1)) faults.add('shrinkTo')
  if (!isWithin(draft.windowMinutes, 1 / MINUTE, MOST_MINUTES)) faults.add('windowMinutes')
  if (!isWithin(draft.keepHours, 0, MOST_MINUTES / MINUTE)) faults.add('keepHours')
  if (!isWithin(draft.keepsPerDay, 0, 100) || !/^\d+$/.test(draft.keepsPerDay.trim())) faults.add('keepsPerDay')
  return faults
}

/** The body of `PUT /api/v1/idle/policies` of a draft without faults. */
export function makeBody(draft: PolicyDraft): PolicyBody {
  const steps = ACTS.filter((act) => draft.after[act].trim() !== '').map((act) => ({
    act,
    after_seconds: Math.round(Number(draft.after[act]) * MINUTE),
    gpu_milli: act === 'shrink' ? Math.round(Number(draft.shrinkTo) * MILLI) : null,
  }))
  return {
    tenant: draft.tenant || null,
    project: draft.project.trim() || null,
    kind: draft.kind || null,
    mode: draft.mode,
    window_seconds: Math.round(Number(draft.windowMinutes) * MINUTE),
    steps,
    keep_seconds: Math.round(Number(draft.keepHours) * HOUR),
    keeps_per_day: Number(draft.keepsPerDay),
  }
}

/** What a policy would do now by one of its steps. */
export interface Foreseen {
  readonly act: IdleAct
  readonly jobs: number
  /** Milli-devices that come back. */
  readonly milli: number
}

/** What each step would take from the jobs that are idle now: a job counts at the last step that is due. */
export function foresee(body: PolicyBody, jobs: readonly IdleJob[]): Foreseen[] {
  const found = new Map<IdleAct, Foreseen>()
  for (const job of jobs) {
    const isMeant =
      (body.tenant == null || body.tenant === job.tenant) &&
      (body.project == null || body.project === job.project) &&
      (body.kind == null || body.kind === job.kind)
    const idle = job.idle_seconds ?? 0
    const step = body.steps.filter((each) => each.after_seconds <= idle).at(-1)
    if (!isMeant || step === undefined) continue
    const left = step.act === 'shrink' ? (step.gpu_milli ?? 0) * job.cards : step.act === 'warn' ? job.gpu_milli : 0
    const before = found.get(step.act)
    const milli = (before?.milli ?? 0) + Math.max(0, job.gpu_milli - left)
    found.set(step.act, { act: step.act, jobs: (before?.jobs ?? 0) + 1, milli })
  }
  return ACTS.flatMap((act) => found.get(act) ?? [])
}
