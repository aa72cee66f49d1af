import { IconHierarchy2 } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 10, icon: IconHierarchy2, shortcut: 'u' },
  namespace: 'quotas',
  path: '/quotas',
  load: async () => (await import('./QuotasPage')).QuotasPage,
}
