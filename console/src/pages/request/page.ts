import { IconCirclePlus } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  path: '/request',
  namespace: 'request',
  menu: { section: 'work', order: 20, icon: IconCirclePlus, shortcut: 'n', dock: true },
  load: async () => (await import('./Request')).Request,
}
