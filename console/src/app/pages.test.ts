import { describe, expect, it } from 'vitest'
import { isFor, listMenu, PAGES, SECTIONS } from './pages'

const ALL = ['read', 'run', 'manage-tenant', 'manage-cards', 'manage-pool', 'read-audit']

describe('pages', () => {
  it('that need a permission are absent without it, and before it is known', () => {
    const needing = PAGES.filter((page) => page.needs !== undefined)
    expect(needing.length).toBeGreaterThan(0)
    for (const page of needing) {
      expect([page.path, isFor(page, ['read', 'run']), isFor(page, undefined)]).toEqual([page.path, false, false])
      expect(isFor(page, ALL)).toBe(true)
    }
  })

  it('stand in the menu of a viewer who may, in their order', () => {
    const paths = (permissions: readonly string[]) =>
      SECTIONS.flatMap((section) => listMenu(section, permissions)).map((page) => page.path)
    expect(paths(ALL)).toContain('/defrag')
    expect(paths(['read'])).not.toContain('/defrag')
    const orders = listMenu('pool', ALL).map((page) => page.menu?.order ?? 0)
    expect(orders).toEqual([...orders].sort((one, other) => one - other))
  })
})
