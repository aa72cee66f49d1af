import { IconUsers } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'admin', order: 10, icon: IconUsers, shortcut: 'p' },
  namespace: 'people',
  path: '/people',
  load: async () => (await import('./PeoplePage')).PeoplePage,
}
