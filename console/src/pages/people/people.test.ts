import { describe, expect, it } from 'vitest'
import { filterRows, isTaken, listRoles, moveEntry, nameBrowser, parseDays, splitWords } from './people'

describe('roles that a viewer may give', () => {
  const session = (permissions: string[]) => ({ permissions }) as never

  it('are all roles for an admin of the pool', () => {
    expect(listRoles(session(['read', 'manage-tenant', 'manage-pool']))).toContain('admin')
  })

  it('stay inside the tenant for its admin', () => {
    expect(listRoles(session(['read', 'manage-tenant']))).toEqual(['tenant-admin', 'user', 'viewer'])
  })
})

describe('filterRows', () => {
  const rows = [
    { name: 'Ada', tenant: 'nlp' },
    { name: 'bob', tenant: null },
  ]
  const words = (row: { name: string; tenant: string | null }) => [row.name, row.tenant]

  it('looks into each word, whatever its case', () => {
    expect(filterRows(rows, ' ada', words)).toEqual([rows[0]])
    expect(filterRows(rows, 'NL', words)).toEqual([rows[0]])
  })

  it('keeps all rows without words', () => {
    expect(filterRows(rows, '  ', words)).toEqual(rows)
  })
})

describe('parseDays', () => {
  it('reads whole days as seconds, and nothing as no end', () => {
    expect(parseDays('30')).toBe(2_592_000)
    expect(parseDays(' ')).toBeNull()
  })

  it.each(['0', '1.5', 'soon', '4000'])('refuses %s', (text) => {
    expect(parseDays(text)).toBeUndefined()
  })
})

describe('moveEntry', () => {
  it('moves one entry and keeps the others in order', () => {
    expect(moveEntry(['a', 'b', 'c'], 2, -1)).toEqual(['a', 'c', 'b'])
    expect(moveEntry(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c'])
  })

  it('changes nothing at the ends', () => {
    expect(moveEntry(['a', 'b'], 0, -1)).toEqual(['a', 'b'])
    expect(moveEntry(['a', 'b'], 1, 1)).toEqual(['a', 'b'])
  })
})

describe('nameBrowser', () => {
  it('names browser and system', () => {
    const edge = 'Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/120.0 Safari/537.36 Edg/120.0'
    expect(nameBrowser('Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko Firefox/140.0')).toBe('Firefox, Linux')
    expect(nameBrowser('curl/8.0')).toBe('')
    expect(nameBrowser(edge)).toBe('Edge, Windows')
  })
})

it('splitWords takes commas and spaces', () => {
  expect(splitWords(' gpu-nlp, staff  ops,')).toEqual(['gpu-nlp', 'staff', 'ops'])
})

it('a new provider does not take the name of another one', () => {
  expect(['corp', ' corp ', 'corp2'].map((name) => isTaken(name, ['corp', 'lab']))).toEqual([true, true, false])
})
