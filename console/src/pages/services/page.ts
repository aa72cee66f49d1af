import { IconWorldShare } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'work', order: 37, icon: IconWorldShare, shortcut: 's' },
  namespace: 'services',
  // Below `/services/` the services themselves answer.
  path: '/serving',
  load: async () => (await import('./ServicesPage')).ServicesPage,
}
