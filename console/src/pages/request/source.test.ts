import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, it, vi } from 'vitest'
import type { Job } from '../../api/jobs'
import { findOutdatedKeys } from '../../app/freshness'
import { askSource } from './source'

it('a job that is cloned is read once, whatever happens in the pool: the form has been changed since', async () => {
  const queries = new QueryClient()
  const read = vi.fn().mockResolvedValue({ id: 'j-1', use: null } as Job)
  const source = new QueryObserver(queries, askSource('j-1', read))
  const end = source.subscribe(() => undefined)
  await vi.waitFor(() => expect(source.getCurrentResult().isSuccess).toBe(true))
  await queries.invalidateQueries()
  for (const kind of ['job.running', 'array.stopped', 'gang.placed', 'idle.policy-set']) {
    for (const key of findOutdatedKeys({ kind }) ?? []) await queries.invalidateQueries({ queryKey: [key] })
  }
  expect(read).toHaveBeenCalledTimes(1)
  end()
  queries.clear()
})
