import { IconGridDots } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 10, icon: IconGridDots, shortcut: 'm', dock: true },
  namespace: 'map',
  path: '/map',
  load: async () => (await import('./MapPage')).MapPage,
}
