import { IconServer2 } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 20, icon: IconServer2, shortcut: 'h' },
  namespace: 'nodes',
  path: '/nodes',
  load: async () => (await import('./NodesPage')).NodesPage,
}
