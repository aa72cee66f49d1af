import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { describe, expect, it, vi } from 'vitest'
import type { PoolEvent, StreamState } from '../live/messages'
import { findOutdatedKeys, keepFresh, type LiveSource } from './freshness'

/** A stream whose events and states the test says. */
class Said implements LiveSource {
  private readonly events = new Set<(event: PoolEvent | null) => void>()
  private readonly states = new Set<(state: StreamState) => void>()

  listenToEvents = (listener: (event: PoolEvent | null) => void) => {
    this.events.add(listener)
    return () => this.events.delete(listener)
  }

  listenToState = (listener: (state: StreamState) => void) => {
    this.states.add(listener)
    return () => this.states.delete(listener)
  }

  say(state: StreamState): void {
    for (const listener of this.states) listener(state)
  }
}

describe('findOutdatedKeys', () => {
  it.each(['quotas', 'devices', 'nodes'])('a job that starts or ends outdates %s', (key) => {
    expect(findOutdatedKeys({ kind: 'job.ended' })).toContain(key)
  })

  it('of an unknown kind everything is outdated', () => {
    expect(findOutdatedKeys({ kind: 'moon.rises' })).toBeNull()
  })
})

describe('keepFresh', () => {
  const options = { defaultOptions: { queries: { retry: false } } } as const

  it('asks again what failed while the server was away, and nothing else', async () => {
    const queries = new QueryClient(options)
    const stream = new Said()
    const preview = vi.fn().mockRejectedValueOnce(new TypeError('failed to fetch')).mockResolvedValue('fits')
    const jobs = vi.fn().mockResolvedValue(['a'])
    const failed = new QueryObserver(queries, { queryKey: ['preview', 1], queryFn: preview })
    const answered = new QueryObserver(queries, { queryKey: ['jobs'], queryFn: jobs, staleTime: 60_000 })
    const ends = [failed.subscribe(() => undefined), answered.subscribe(() => undefined), keepFresh(queries, stream)]
    stream.say({ phase: 'live' })
    await vi.waitFor(() => expect(failed.getCurrentResult().isError).toBe(true))
    stream.say({ phase: 'stopped', sinceMs: 1 })
    expect(preview).toHaveBeenCalledTimes(1)
    stream.say({ phase: 'live' })
    await vi.waitFor(() => expect(failed.getCurrentResult().data).toBe('fits'))
    expect(jobs).toHaveBeenCalledTimes(1)
    for (const end of ends) end()
    queries.clear()
  })
})
