import { IconHeartbeat } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'pool', order: 50, icon: IconHeartbeat, shortcut: 'e' },
  namespace: 'health',
  path: '/health',
  load: async () => (await import('./HealthPage')).HealthPage,
}
