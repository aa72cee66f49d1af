import { describe, expect, it } from 'vitest'
import { GIB } from '../../ui/format'
import {
  type Advice,
  isNamable,
  type LiveRun,
  listProposals,
  makeSilence,
  type Policy,
  planResizes,
  sumAdvice,
  sumFreed,
  writeOptions,
} from './advice'

const run = (changes: Partial<LiveRun>): LiveRun => ({
  job: 'j1',
  name: 'train-1',
  user: 'ada',
  gpu_milli: 500,
  memory_bytes: 16 * GIB,
  fixed: '',
  ...changes,
})
const advice = (changes: Partial<Advice>): Advice =>
  ({ advice: 'shrink', gpu_milli: 300, memory_bytes: 8 * GIB, saved_milli: 200, live: [], ...changes }) as Advice

describe('planResizes', () => {
  it('names only what changes, and leaves what cannot', () => {
    const live = [
      run({}),
      run({ job: 'j2', gpu_milli: 0 }),
      run({ job: 'j3', gpu_milli: 300, memory_bytes: 8 * GIB }),
      run({ job: 'j4', fixed: 'it has a partition' }),
    ]
    expect(planResizes(advice({ live })).map((resize) => [resize.run.job, resize.body])).toEqual([
      ['j1', { gpu_milli: 300, memory_bytes: 8 * GIB }],
      ['j2', { memory_bytes: 8 * GIB }],
    ])
  })

  it('is empty where nothing is known', () => {
    const unknown = advice({ advice: 'unknown', gpu_milli: null, memory_bytes: null, live: [run({})] })
    expect(planResizes(unknown)).toEqual([])
    expect(writeOptions(unknown)).toBe('')
  })
})

describe('proposals of policies', () => {
  const live = [
    run({ proposed_milli: 250, proposed_bytes: 16 * GIB }),
    run({ job: 'j2', proposed_milli: null, proposed_bytes: null }),
    run({ job: 'j3', proposed_milli: 500, proposed_bytes: 16 * GIB }),
    run({ job: 'j4', proposed_milli: 250, proposed_bytes: 8 * GIB, fixed: 'it has a partition' }),
  ]

  it('are those that would change a job, and are not the advice of its family', () => {
    const found = listProposals([advice({ live, cards: 2 })])
    expect(found.map(({ resize }) => [resize.run.job, resize.body])).toEqual([['j1', { gpu_milli: 250 }]])
    expect(sumFreed(found)).toBe(500)
  })

  it('end with a policy that is off, and in no bound looser than the others', () => {
    const family = advice({ tenant: 'nlp', project: 'chat', pattern: 'eval' })
    const policy = { least_milli: 200, most_cut_percent: 30, least_bytes: 2 * GIB } as Policy
    expect(makeSilence(family, [policy])).toMatchObject({
      tenant: 'nlp',
      project: 'chat',
      families: 'eval',
      mode: 'off',
      least_milli: 200,
      most_cut_percent: 30,
      least_bytes: 2 * GIB,
      confidence: 'high',
    })
    expect(makeSilence(family, [])).toMatchObject({ least_milli: 50, most_cut_percent: 50, least_bytes: GIB })
  })

  it('stay where no policy can name the family alone', () => {
    expect([{ pattern: 'eval-big' }, { pattern: '' }, { pattern: 'a_b' }].map(isNamable)).toEqual([true, false, false])
  })
})

describe('sumAdvice', () => {
  it('adds what families would free, and an unknown saving is no 0', () => {
    const families = [advice({}), advice({ saved_milli: 100 }), advice({ advice: 'grow', saved_milli: -50 })]
    expect(sumAdvice(families)).toEqual({ shrink: 2, grow: 1, savedMilli: 300 })
    expect(sumAdvice([advice({ saved_milli: null })]).savedMilli).toBeNull()
  })
})

it('options are those of the command line', () => {
  expect(writeOptions(advice({}))).toBe('--gpu 0.3 --memory 8GiB')
  expect(writeOptions(advice({ gpu_milli: 0, memory_bytes: 1.5 * GIB }))).toBe('--memory 1536MiB')
})
