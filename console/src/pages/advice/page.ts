import { IconRuler2 } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  menu: { section: 'books', order: 25, icon: IconRuler2, shortcut: 'z' },
  namespace: 'advice',
  path: '/advice',
  load: async () => (await import('./AdvicePage')).AdvicePage,
}
