import { IconCalendarTime } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'work', order: 40, icon: IconCalendarTime, shortcut: 'q', dock: true },
  namespace: 'queue',
  path: '/queue',
  load: async () => (await import('./QueuePage')).QueuePage,
}
