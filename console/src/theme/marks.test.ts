import { afterEach, describe, expect, it } from 'vitest'
import { ANONYMOUS, assignMarks, findMark, MARKS } from './marks'

const tenants = (count: number) =>
  Array.from({ length: count }, (_, place) => ({ name: `t${place}`, created_ns: place }))
afterEach(() => assignMarks([]))

describe('marks of tenants', () => {
  it('differ for as many tenants as there are marks', () => {
    assignMarks(tenants(MARKS.length))
    expect(new Set(tenants(MARKS.length).map((tenant) => findMark(tenant.name))).size).toBe(MARKS.length)
  })

  it('stay when a younger tenant comes', () => {
    assignMarks(tenants(8))
    const before = tenants(8).map((tenant) => findMark(tenant.name).name)
    assignMarks([{ name: 'a-young-one', created_ns: 99 }, ...tenants(8)])
    expect(tenants(8).map((tenant) => findMark(tenant.name).name)).toEqual(before)
  })

  it('are those of the names beyond that', () => {
    const known = findMark('t13')
    assignMarks(tenants(14))
    expect(MARKS).toContain(findMark('t13'))
    expect(findMark('t13')).toBe(known)
  })

  it('say nothing of a tenant that the viewer may not see', () => {
    expect(findMark(null)).toBe(ANONYMOUS)
  })
})
