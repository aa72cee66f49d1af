import { IconTopologyStar3 } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 60, icon: IconTopologyStar3, shortcut: 'w' },
  namespace: 'networks',
  path: '/networks',
  load: async () => (await import('./NetworksPage')).NetworksPage,
}
