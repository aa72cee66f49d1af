import { IconLayoutDashboard } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  path: '/',
  namespace: 'overview',
  menu: { section: 'work', order: 10, icon: IconLayoutDashboard, shortcut: 'o', dock: true },
  load: async () => (await import('./Overview')).Overview,
}
