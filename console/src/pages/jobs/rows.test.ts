import { describe, expect, it } from 'vitest'
import type { Job } from '../../api/jobs'
import { buildRows, nameGroup } from './rows'

const job = (id: string, more: Partial<Job> = {}) => ({ id, name: id, state: 'running', jobs: 1, ...more }) as Job
const member = (index: number, state: Job['state'] = 'running') =>
  job(`a1.${index}`, { name: `sweep.${index}`, array: 'a1', array_index: index, state })

describe('buildRows', () => {
  it('makes one row of the members of an array, at the place of the first', () => {
    const rest = job('a1.9', { name: 'sweep', array: 'a1', state: 'pending', jobs: 40 })
    const rows = buildRows([job('x'), member(1), job('y'), member(2, 'failed'), rest], new Set())
    expect(rows.map((row) => row.job.id)).toEqual(['x', 'a1.1', 'y'])
    expect(Object.fromEntries(rows[1]?.states ?? [])).toEqual({ running: 1, failed: 1, pending: 40 })
  })

  it('shows the members below a group that is open', () => {
    const rows = buildRows([member(1), member(2)], new Set(['a1']))
    expect(rows.map((row) => [row.kind, row.isMember])).toEqual([
      ['group', false],
      ['job', true],
      ['job', true],
    ])
  })

  it('leaves a single member as it is', () => {
    expect(buildRows([member(1)], new Set())[0]?.kind).toBe('job')
  })

  it('names a group without the index', () => {
    expect(nameGroup(member(12))).toBe('sweep')
    expect(nameGroup(job('plain.3'))).toBe('plain.3')
  })
})
