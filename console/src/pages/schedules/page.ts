import { IconRepeat } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'work', order: 35, icon: IconRepeat, shortcut: 'l' },
  namespace: 'schedules',
  path: '/schedules',
  load: async () => (await import('./SchedulesPage')).SchedulesPage,
}
