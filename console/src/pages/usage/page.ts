import { IconReceipt2 } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 20, icon: IconReceipt2, shortcut: 'c' },
  namespace: 'usage',
  path: '/usage',
  load: async () => (await import('./UsagePage')).UsagePage,
}
