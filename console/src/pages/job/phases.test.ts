import { describe, expect, it } from 'vitest'
import { listPhases } from './phases'

const SECOND = 1e9

describe('listPhases', () => {
  it('lists each phase as long as it took', () => {
    const job = { submitted_ns: 0, placed_ns: 90 * SECOND, started_ns: 92 * SECOND, ended_ns: 152 * SECOND }
    expect(listPhases(job).map((phase) => [phase.name, phase.seconds, phase.isCurrent])).toEqual([
      ['queued', 90, false],
      ['starting', 2, false],
      ['running', 60, false],
    ])
  })

  it('ends the last phase with a job that never ran', () => {
    const job = { submitted_ns: 0, placed_ns: null, started_ns: null, ended_ns: 30 * SECOND }
    expect(listPhases(job)).toEqual([{ name: 'queued', seconds: 30, isCurrent: false }])
  })

  it('counts the phase of a live job until now', () => {
    const [phase] = listPhases({
      submitted_ns: (Date.now() - 5000) * 1e6,
      placed_ns: null,
      started_ns: null,
      ended_ns: null,
    })
    expect(phase?.isCurrent).toBe(true)
    // Nanoseconds since 1970 are rounded in a double: a microsecond may be lost.
    expect(phase?.seconds).toBeGreaterThan(4.9)
  })
})
