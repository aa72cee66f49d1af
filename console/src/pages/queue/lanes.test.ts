import { expect, test } from 'vitest'
import { makeLanes, type Reservation, type RunningJob } from './lanes'

const job = (name: string, node: string | null, max_seconds: number | null, tenant = 'a'): RunningJob => ({
  id: name,
  name,
  tenant,
  node,
  count: 2,
  gpu_milli: 1000,
  started_ns: 10e9,
  max_seconds,
})
const reservation = (name: string, state: Reservation['state']): Reservation => ({
  id: name,
  name,
  tenant: 'a',
  share: '1.00 GPU',
  replicas: 2,
  state,
  start_ns: 50e9,
  end_ns: null,
})
const CARDS = new Map([['n3', 8]])

test('the node comes first on which a job ends first', () => {
  const jobs = [job('x', 'n1', null), job('y', 'n2', 60), job('z', 'n3', 30), job('v', null, 5)]
  const lanes = makeLanes(jobs, [reservation('r', 'planned'), reservation('s', 'ended')], CARDS, 2)
  expect(lanes.map((lane) => lane.name)).toEqual(['n3', 'n2', 'r'])
  expect(lanes[0]?.blocks[0]).toMatchObject({ fromMs: 10_000, toMs: 40_000, kind: 'running', height: 0.25 })
  expect(lanes[2]).toMatchObject({ detail: '2 × 1.00 GPU' })
  expect(lanes[2]?.blocks[0]).toMatchObject({ fromMs: 50_000, toMs: Number.POSITIVE_INFINITY })
})

test('several jobs of a node are steps that go down at each end', () => {
  const jobs = [job('late', 'n3', 90), job('soon', 'n3', 30, 'b'), job('both', 'n3', 30)]
  const [lane] = makeLanes(jobs, [], CARDS, 5)
  expect(lane?.blocks).toEqual([
    { kind: 'running', fromMs: 10_000, toMs: 40_000, names: ['soon', 'both', 'late'], tenant: null, height: 0.75 },
    { kind: 'running', fromMs: 40_000, toMs: 100_000, names: ['late'], tenant: 'a', height: 0.25 },
  ])
})
