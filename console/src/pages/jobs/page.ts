import { IconListDetails } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  path: '/jobs',
  namespace: 'jobs',
  menu: { section: 'work', order: 30, icon: IconListDetails, shortcut: 'j', dock: true },
  load: async () => (await import('./Jobs')).Jobs,
}
