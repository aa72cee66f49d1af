import { describe, expect, it } from 'vitest'
import {
  chooseMeasure,
  findFaults,
  findReason,
  findState,
  findWhy,
  formatAnswerTime,
  formatRate,
  makeAddress,
  makeChange,
  makeRuleDraft,
  planRemoval,
  type Replica,
  type RuleDraft,
  type Service,
  type ServiceEvent,
  type ServiceRule,
  sumServices,
  writeCommand,
  writeFacts,
} from './services'

const RULE = { min_replicas: 1, max_replicas: 4, measure: 'requests', target: null } as ServiceRule
const DRAFT: RuleDraft = { least: '1', most: '4', measure: 'requests', target: '10' }
const service = (changes: Partial<Service>): Service =>
  ({ state: 'active', desired: 2, ready: 2, recent: null, path: '/services/web/', ...changes }) as Service
const replica = (changes: Partial<Replica>): Replica =>
  ({ number: 1, state: 'ready', job: 'j-1', requests: 0, ...changes }) as Replica

describe('a service', () => {
  it('is healthy with all of its replicas alone, and one scaled to 0 waits for nothing', () => {
    expect(findState(service({}))).toBe('ready')
    expect(findState(service({ ready: 1 }))).toBe('waiting')
    expect(findState(service({ desired: 0, ready: 0 }))).toBe('off')
    expect(findState(service({ state: 'deleting', desired: 0 }))).toBe('stopping')
  })

  it('says why replicas are missing without the count again', () => {
    expect(findWhy('1 of 2 healthy; replica 3 waits: no room yet')).toBe('replica 3 waits: no room yet')
    expect(findWhy('0 of 2 healthy')).toBe('')
    expect(findWhy('scaled to 0: the next request starts a replica')).toMatch(/^scaled to 0/)
  })

  it('has its address below the server of the page', () => {
    expect(makeAddress(service({}), 'https://pool.example.com')).toBe('https://pool.example.com/services/web/')
  })

  it('ends with all replicas that live, and says what they serve', () => {
    const replicas = [
      replica({ number: 1, state: 'ended', requests: 0 }),
      replica({ number: 2, requests: 3 }),
      replica({ number: 4, state: 'draining', requests: 1 }),
      replica({ number: 3, state: 'wanted', job: null }),
    ]
    const plan = planRemoval(service({ replicas }))
    expect(plan.replicas.map((each) => each.number)).toEqual([4, 3, 2])
    expect(plan.requests).toBe(4)
  })
})

describe('sums', () => {
  const recent = { seconds: 300, requests: 3, errors: 0, per_second: 0.5, p50_seconds: null, p95_seconds: null }

  it('count replicas, and a rate that no service has is no 0', () => {
    expect(sumServices([service({}), service({ ready: 0 })])).toEqual({ ready: 2, desired: 4, perSecond: null })
    expect(sumServices([service({ recent }), service({ recent }), service({})]).perSecond).toBe(1)
  })
})

it('figures have the digits that they are worth, and unknown ones a dash', () => {
  expect([null, 0, 0.0033, 0.42, 1.26, 12.34].map(formatRate)).toEqual(['--', '0', '0.0033', '0.42', '1.3', '12.3'])
  const times = [undefined, 0.84, 4.75, 42.3].map(formatAnswerTime)
  expect(times).toEqual(['--', '840\u00a0ms', '4.8\u00a0s', '42\u00a0s'])
})

describe('a rule', () => {
  it('is changed with the target that holds now', () => {
    expect(makeRuleDraft(RULE)).toEqual(DRAFT)
    expect(makeChange(DRAFT)).toEqual({ min_replicas: 1, max_replicas: 4, measure: 'requests', target: 10 })
    expect(writeCommand('web', DRAFT)).toBe('gpupool service update web --min 1 --max 4 --measure requests --target 10')
  })

  it('takes the usual target of another measure, and keeps the own one of the same', () => {
    const typed = { ...DRAFT, target: '25' }
    expect(chooseMeasure(typed, 'gpu').target).toBe('70')
    expect(chooseMeasure(typed, 'requests').target).toBe('25')
  })

  it('names the field that is wrong', () => {
    const faults = (part: Partial<RuleDraft>) => [...findFaults({ ...DRAFT, ...part })]
    expect(faults({})).toEqual([])
    expect(faults({ least: '0' })).toEqual([])
    expect(faults({ least: '1.5' })).toEqual(['least'])
    expect(faults({ least: '', most: '65' })).toEqual(['least', 'most'])
    expect(faults({ least: '5' })).toEqual(['bounds'])
    expect(faults({ measure: 'gpu', target: '101' })).toEqual(['target'])
    expect(faults({ target: '101' })).toEqual([])
  })
})

it('an event is one line of facts, and its reason stands below', () => {
  const event = { data: { from: 1, to: 2, load: null, reason: 'scaled to 2' } } as unknown as ServiceEvent
  expect(writeFacts(event)).toBe('from 1, to 2')
  expect(findReason(event)).toBe('scaled to 2')
  expect(findReason({} as ServiceEvent)).toBe('')
})
