import { describe, expect, it } from 'vitest'
import { buildQuestion, EMPTY, readFilter, writeCommand, writeFilter } from './filter'

describe('the filter of the page Jobs', () => {
  it('comes back from the address as it was', () => {
    const filter = { ...EMPTY, q: 'res net', states: ['failed' as const, 'lost' as const], user: 'li', sort: '-gpu' }
    expect(readFilter(writeFilter(filter))).toEqual(filter)
  })

  it('leaves out what an address must not say', () => {
    expect(readFilter({ state: 'running,dancing', sort: 'password', q: 7 })).toEqual({ ...EMPTY, states: ['running'] })
  })

  it('asks for the page after a cursor', () => {
    expect(buildQuestion({ ...EMPTY, q: 'a' }, 'next-1', 50)).toMatchObject({
      q: 'a',
      cursor: 'next-1',
      limit: 50,
      all: true,
    })
  })

  it('says the same on the command line, quoted', () => {
    expect(writeCommand({ ...EMPTY, q: "it's", states: ['pending'] })).toBe(
      "gpupool ps --all --state pending --search 'it'\\''s'",
    )
  })
})
