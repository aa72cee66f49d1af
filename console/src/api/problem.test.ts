import { expect, it } from 'vitest'
import { isRefused, Problem } from './problem'

it('a server that is away or in trouble has refused nothing', () => {
  const problem = (status: number) => new Problem({ title: '', status, detail: 'no', code: 'GP-1001' })
  expect([problem(403), problem(422)].map(isRefused)).toEqual([true, true])
  expect([problem(502), new TypeError('failed to fetch'), null].map(isRefused)).toEqual([false, false, false])
})
