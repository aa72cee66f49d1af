import { IconPuzzle } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 80, icon: IconPuzzle, shortcut: 'd' },
  namespace: 'defrag',
  needs: 'manage-pool',
  path: '/defrag',
  load: async () => (await import('./DefragPage')).DefragPage,
}
