import { IconZzz } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 55, icon: IconZzz, shortcut: 'k' },
  namespace: 'idle',
  path: '/idle',
  load: async () => (await import('./IdlePage')).IdlePage,
}
