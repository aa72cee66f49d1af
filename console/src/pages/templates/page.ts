import { IconTemplate } from '@tabler/icons-react'
import type { PageEntry } from '../../app/pages'

export const page: PageEntry = {
  path: '/templates',
  namespace: 'templates',
  menu: { section: 'work', order: 25, icon: IconTemplate, shortcut: 't' },
  load: async () => (await import('./TemplatesPage')).TemplatesPage,
}
