import { describe, expect, it } from 'vitest'
import type { IdleJob, IdlePolicy } from './idle'
import { findFaults, foresee, makeBody, makeDraft } from './policyDraft'

const policy = {
  tenant: null,
  project: null,
  kind: 'notebook',
  mode: 'on',
  window_seconds: 300,
  steps: [
    { act: 'warn', after_seconds: 3000, gpu_milli: null },
    { act: 'shrink', after_seconds: 3600, gpu_milli: 50 },
    { act: 'stop', after_seconds: 7200, gpu_milli: null },
  ],
  keep_seconds: 5400,
  keeps_per_day: 3,
} as unknown as IdlePolicy

describe('a draft of an idle policy', () => {
  it('has what the policy has', () => {
    const { mode, kind, steps, window_seconds, keep_seconds, keeps_per_day } = policy
    const same = { tenant: null, project: null, mode, kind, steps, window_seconds, keep_seconds, keeps_per_day }
    expect(makeBody(makeDraft(policy, ''))).toEqual(same)
  })

  it('is a dry run until it is made another', () => {
    expect(makeBody(makeDraft(null, 'nlp'))).toMatchObject({ mode: 'dry-run', tenant: 'nlp' })
  })

  it('says what no policy can have', () => {
    const draft = makeDraft(policy, '')
    const after = { ...draft.after, warn: '', stop: 'soon' }
    const faults = findFaults({ ...draft, after, shrinkTo: '2', keepsPerDay: '1.5' })
    expect(faults).toEqual(new Set(['warn', 'stop', 'shrinkTo', 'keepsPerDay']))
  })
})

it('foresees the last step that is due of each job, and what comes back', () => {
  const job = (changes: object) =>
    ({
      tenant: 'nlp',
      project: 'default',
      kind: 'notebook',
      cards: 1,
      gpu_milli: 500,
      idle_seconds: 0,
      ...changes,
    }) as IdleJob
  const jobs = [
    job({ idle_seconds: 3100 }),
    job({ idle_seconds: 4000, cards: 2, gpu_milli: 1000 }),
    job({ idle_seconds: 8000 }),
    job({ idle_seconds: 9000, gpu_milli: 250 }),
    job({ idle_seconds: 9000, kind: 'job' }),
    job({ idle_seconds: null }),
  ]
  expect(foresee(makeBody(makeDraft(policy, '')), jobs)).toEqual([
    { act: 'warn', jobs: 1, milli: 0 },
    { act: 'shrink', jobs: 1, milli: 900 },
    { act: 'stop', jobs: 2, milli: 750 },
  ])
})
