// What a page gives to the console. Each page registers itself: src/pages/<page>/page.ts exports
// `page`, and nothing else names it.
import type { Icon } from '@tabler/icons-react'
import type { ComponentType } from 'react'

export type Section = 'work' | 'pool' | 'books'

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
    /** Roles whose menu has the page; absent: every role. */
    roles?: readonly string[]
  }
  /** Catalogue whose key `menu` names the page. */
  namespace: string
  /** Path in TanStack Router's form, `/jobs/$job`. */
  path: string
  /** Loads the component; a page is a chunk of its own. */
  load: () => Promise<ComponentType>
}

const modules = import.meta.glob<{ page: PageEntry }>('../pages/*/page.ts', { eager: true })

export const PAGES: readonly PageEntry[] = Object.values(modules).map((module) => module.page)

export const SECTIONS: readonly Section[] = ['work', 'pool', 'books']

/** Whether a role has the page in its menu. The server decides anyway. */
export const isOffered = (page: PageEntry, role: string | undefined): boolean =>
  page.menu !== undefined && (page.menu.roles === undefined || page.menu.roles.includes(role ?? ''))

/** The pages of the menu's section that a role has, in their order. */
export function listMenu(section: Section, role: string | undefined): PageEntry[] {
  return PAGES.filter((page) => page.menu?.section === section && isOffered(page, role)).sort(
    (one, other) => (one.menu?.order ?? 0) - (other.menu?.order ?? 0),
  )
}
