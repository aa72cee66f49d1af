import { expect, test } from 'vitest'
import { buildQuestion, EMPTY, readFilter, writeCommand, writeFilter } from './filter'

test('a filter survives the address of the page', () => {
  const filter = { ...EMPTY, user: 'ada', action: 'DELETE', kind: 'refusal' }
  expect(readFilter(writeFilter(filter))).toEqual(filter)
  expect(writeFilter(EMPTY)).toEqual({})
})

test('an address of others is read without harm', () => {
  expect(readFilter({ kind: 'x', user: ['a'], object: 7, other: 'y' })).toEqual({ ...EMPTY, object: '7' })
})

test('the question names the filter, the order and the page', () => {
  const asked = buildQuestion({ ...EMPTY, object: 'a&b', tenant: ' nlp ' }, '120', 100)
  expect(asked).toBe('/api/v1/audit?object=a%26b&tenant=nlp&order=newest&limit=100&after=120')
})

test('the command quotes what a shell would read otherwise', () => {
  expect(writeCommand(EMPTY)).toBe('gpupool audit list')
  expect(writeCommand({ ...EMPTY, user: 'ada', action: "POST /x'" })).toBe(
    "gpupool audit list --user ada --action 'POST /x'\\'''",
  )
})
