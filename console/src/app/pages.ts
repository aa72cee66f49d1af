// What a page gives to the console. Each page registers itself: src/pages/<page>/page.ts exports
// `page`, and nothing else names it.
import type { Icon } from '@tabler/icons-react'
import type { ComponentType } from 'react'

/** What a role may do, as `GET /api/v1/session` names it; `read-audit` is of the role (`useSession`). */
export type Permission = 'run' | 'manage-tenant' | 'manage-cards' | 'manage-pool' | 'read-audit'

export type Section = 'work' | 'pool' | 'books' | 'admin'

export interface PageEntry {
  /** Place in the menu; absent where the page is reached from another one. */
  menu?: {
    section: Section
    /** Order inside the section: tens, so that a page fits between two others. */
    order: number
    icon: Icon
    /** Second key of `g` + key. */
    shortcut?: string
    /** True where the phone's dock shows it (five at most). */
    dock?: boolean
  }
  /** Catalogue whose key `menu` names the page. */
  namespace: string
  /** Permission that the page needs: for a viewer without it there is no such page. */
  needs?: Permission
  /** Path in TanStack Router's form, `/jobs/$job`. */
  path: string
  /** Loads the component; a page is a chunk of its own. */
  load: () => Promise<ComponentType>
}

const modules = import.meta.glob<{ page: PageEntry }>('../pages/*/page.ts', { eager: true })

export const PAGES: readonly PageEntry[] = Object.values(modules).map((module) => module.page)

export const SECTIONS: readonly Section[] = ['work', 'pool', 'books', 'admin']

/** Whether a page exists for a viewer with these permissions. */
export const isFor = (page: PageEntry, permissions: readonly string[] | undefined): boolean =>
  page.needs === undefined || (permissions?.includes(page.needs) ?? false)

/** The pages of the menu's section for a viewer, in their order. */
export function listMenu(section: Section, permissions: readonly string[] | undefined): PageEntry[] {
  return PAGES.filter((page) => page.menu?.section === section && isFor(page, permissions)).sort(
    (one, other) => (one.menu?.order ?? 0) - (other.menu?.order ?? 0),
  )
}
