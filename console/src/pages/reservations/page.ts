import { IconCalendarTime } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 70, icon: IconCalendarTime, shortcut: 'v' },
  namespace: 'reservations',
  path: '/reservations',
  load: async () => (await import('./ReservationsPage')).ReservationsPage,
}
